/** The fields of the JSON object that stands under a key, or in a message; none if it is no object, or no JSON. The caller checks them:
 *  whoever may ask NATS anything can have the answer put under any key. */
export function fieldsIn<Entry>(data: Uint8Array | string): Partial<Entry> {
  try {
    return Object(
      JSON.parse(typeof data === 'string' ? data : Buffer.from(data).toString()),
    ) as Partial<Entry>;
  } catch {
    return {};
  }
}
