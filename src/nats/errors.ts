// Why a node cannot be of a cluster. Apart from what throws them: whoever tells of them need not load NATS's client.

/** This node cannot be one of this cluster; the message says what to do. */
export class ClusterIdentityError extends Error {
  override readonly name = 'ClusterIdentityError';
}

/** This version cannot work in this cluster; the message says what to do. */
export class WriteFormatUnknown extends Error {
  override readonly name = 'WriteFormatUnknown';
}

/** No connection came to be; the message says what to look at. */
export class CannotConnect extends Error {
  override readonly name = 'CannotConnect';
}

/** NATS is there, and does not give what a node begins with; the message says what to look at. */
export class CannotJoin extends Error {
  override readonly name = 'CannotJoin';
}

/** The client keeps no connection any more, which it never should of its own accord. */
export class NatsEnded extends Error {
  override readonly name = 'NatsEnded';
}

/** The servers cannot carry what this product sends; the message says what to do. */
export class NatsUnfit extends Error {
  override readonly name = 'NatsUnfit';
}
