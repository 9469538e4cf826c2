// What every ratio is taken against: uWebSockets.js alone, reading the body and answering with as many bytes as the
// service would. A program of its own, so that it shares nothing with what measures it.
//
//   node bare.ts '{"postBody":"…","getBody":"…"}'     bodies of the service's answers; prints its port when it listens

import { App } from 'uWebSockets.js';
import { listen } from './listen.ts';

const { postBody, getBody } = JSON.parse(process.argv[2]!) as { postBody: string; getBody: string };
/** As long as the service's; every answer of it carries one. */
const REQUEST_ID = 'req_00000000000000000000000000';

const app = App();

app.post('/*', (response) => {
  response.onAborted(() => {});
  const chunks: Buffer[] = [];
  response.onData((chunk, isLast) => {
    // The chunk is only valid now.
    chunks.push(Buffer.from(Buffer.from(chunk)));
    if (!isLast) return;
    const body = Buffer.concat(chunks);
    if (body.length === 0) throw new Error('the drivers send bodies');
    response.cork(() => {
      response
        .writeStatus('201 Created')
        .writeHeader('Content-Type', 'application/json')
        .writeHeader('Request-Id', REQUEST_ID)
        .end(postBody);
    });
  });
});

app.get('/*', (response) => {
  response
    .writeStatus('200 OK')
    .writeHeader('Content-Type', 'application/json')
    .writeHeader('Request-Id', REQUEST_ID)
    .end(getBody);
});

listen(app);
