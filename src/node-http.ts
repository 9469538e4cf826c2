/** Node's HTTP. Where `node:http` is imported Node loads its undici, too, for a WebSocket that nobody here wants: 60 ms of each start. */
export const http = process.getBuiltinModule('node:http');
