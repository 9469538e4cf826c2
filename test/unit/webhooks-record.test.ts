// The format of the webhooks log, version 1: lines as the first release wrote them, read for ever.

import t from 'tap';
import { decodeWebhookRecord, encodeWebhookRecord } from '../../actors/webhooks/record.ts';
import type { WebhookRecord } from '../../actors/webhooks/record.ts';
import { DrivenWebhooks } from './webhooks-driven.ts';

const ACCOUNT = 'acc_0000000001000000000000000W';
const BODY = '00000YHVM00000000000000000';
const DELIVERY = 'dlv_00000YHVM00000000000000001';

const VERSION_1 = [
  `{"v":1,"type":"EventsTaken","at":1000000,"upstreamSequence":3,"idBody":"${BODY}","endpoints":[{"appId":"app_1","accountId":"${ACCOUNT}","url":"https://a.example.com/","signingSecretSealed":"v1.x","removed":false}],"events":[{"id":"evt_1","accountId":"${ACCOUNT}","transactionId":"chg_1","eventType":"charge.successful","body":"{\\"id\\":\\"evt_1\\"}","at":999000,"appIds":["app_1"]}]}`,
  `{"v":1,"type":"AttemptRecorded","at":1000100,"deliveryId":"${DELIVERY}","attempt":{"at":1000010,"url":"https://a.example.com/","statusCode":500,"error":"http_status","durationMs":80,"excerpt":"oops"},"next":{"status":"RETRYING","nextAt":1030100}}`,
  `{"v":1,"type":"DeliveriesReplayed","at":1000200,"deliveryIds":["${DELIVERY}"],"by":"amina"}`,
  `{"v":1,"type":"AttemptRecorded","at":1000300,"deliveryId":"${DELIVERY}","attempt":{"at":1000210,"url":"https://a.example.com/","statusCode":200,"error":null,"durationMs":12,"excerpt":""},"next":{"status":"DELIVERED","nextAt":null}}`,
];

void t.test('a log of version 1 gives the state it gave', (t) => {
  const { logic } = new DrivenWebhooks({}, VERSION_1).replayed();
  t.equal(logic.cursor, 3);
  const query = {
    type: 'GetDelivery',
    deadline: Infinity,
    accountId: ACCOUNT,
    deliveryId: DELIVERY,
  } as const;
  const { reply } = logic.query(query);
  t.hasStrict(JSON.parse(reply.type === 'done' ? reply.body : '{}'), {
    id: DELIVERY,
    app_id: 'app_1',
    event_id: 'evt_1',
    event_type: 'charge.successful',
    status: 'DELIVERED',
    next_attempt_at: null,
    attempts: [
      { status_code: 500, error: 'http_status', excerpt: 'oops' },
      { status_code: 200, error: null },
    ],
  });
  t.end();
});

void t.test('what is written is what was written', (t) => {
  for (const line of VERSION_1) t.equal(encodeWebhookRecord(decodeWebhookRecord(line)), line);
  t.throws(() => decodeWebhookRecord('{"v":2,"type":"EventsTaken"}'), /version/);
  // Passed over, they would leave this version's rows without what they say.
  t.throws(() => decodeWebhookRecord('{"v":1,"type":"DeliveryHeld","at":1,"deliveryId":"dlv_1"}'), /type/);
  const more = '{"v":1,"type":"DeliveryCancelled","at":1,"deliveryId":"dlv_1","by":"amina"}';
  t.throws(() => decodeWebhookRecord(more), /fields/);
  t.end();
});

void t.test('a log that says what cannot be is read no further', (t) => {
  const { logic } = new DrivenWebhooks({}, VERSION_1).replayed();
  const [taken] = VERSION_1.map(decodeWebhookRecord);
  const back = { ...taken, upstreamSequence: logic.cursor - 1 } as WebhookRecord;
  t.throws(() => logic.evolve(back, 5), /the cursor of a feed never goes back/);
  const ofNone = { type: 'DeliveryCancelled', at: 1_000_400, deliveryId: 'dlv_unknown' } as const;
  t.throws(() => logic.evolve(ofNone, 5), /names a delivery that exists/);
  t.end();
});
