// The HTTP server: one surface on one host and port. The only file that knows uWebSockets.js. It turns the registry into
// uWebSockets' router, reads the few headers each kind of route needs while they are valid (until the handler returns)
// and answers what no route matches.
//
// An exception in a handler is a bug of ours: it becomes an uncaught exception and stops the process. No input may
// reach one.

import { App, us_listen_socket_close, us_socket_local_port } from 'uWebSockets.js';
import type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import type { Bus } from '../bus/bus.ts';
import { rejection } from '../domain/error-code.ts';
import { LIMITS } from '../limits.ts';
import { create, read, type AccountGate } from './account-calls.ts';
import { Arrived } from './arrived.ts';
import { CannotListen, whyCannotListen } from './cannot-listen.ts';
import { Call, type CallContext, type Bounds } from './call.ts';
import { Departing } from './departing.ts';
import type { HttpObserver, RouteName } from './observer.ts';
import { OpenCalls } from './open-calls.ts';
import { ListLine } from './list-line.ts';
import { plain, raw } from './plain-calls.ts';
import { requestIdMaker } from './request-id.ts';
import {
  UNAVAILABLE,
  type CreateRoute,
  type PlainRoute,
  type RawRoute,
  type ReadRoute,
  type Route,
  type Surface,
} from './route.ts';
import { compileBody, compileQuery } from './validator.ts';

export interface ServerOptions {
  readonly surface: Surface;
  readonly bus: Bus;
  readonly observer: HttpObserver;
  /** Left out: those of LIMITS. */
  readonly bounds?: Bounds;
  /** Open at once; one more is closed as it comes. Left out: as many as come. */
  readonly connectionsMax?: number | undefined;
}

export interface HttpServer {
  /** Port 0: any free one. Resolves with the port; rejects when it cannot be had. */
  listen(host: string, port: number): Promise<number>;
  /** Takes no new connections, answers what is open, lets clients take long answers for `frontStopPourMs`, then closes
   *  every connection. */
  stop(): Promise<void>;
}

type Handler = (response: HttpResponse, request: HttpRequest) => void;

const UNSUPPORTED_MEDIA_TYPE = rejection('unsupported_media_type');
/** uWebSockets would share the port with another process otherwise; its types do not know the argument. */
const EXCLUSIVE_PORT = 1;

export function createServer(options: ServerOptions): HttpServer {
  const context: CallContext = {
    open: new OpenCalls(),
    arrived: new Arrived(),
    lists: new ListLine(),
    departing: new Departing(),
    observer: options.observer,
    nextRequestId: requestIdMaker(),
    bounds: options.bounds ?? LIMITS,
    closing: false,
  };
  const app = App();
  if (options.connectionsMax !== undefined) boundConnections(app, options.connectionsMax, options.observer);
  for (const route of options.surface.routes) addRoute(app, context, options, route);
  app.any('/*', unmatched(context, options.surface));
  return serverOf(app, context);
}

/** Where a process may open no more files nobody else of it can open one either, and each turn of the loop tries to take the next. */
function boundConnections(app: TemplatedApp, connectionsMax: number, observer: HttpObserver): void {
  let open = 0;
  app.filter((response, change) => {
    open += change;
    if (change < 0 || open <= connectionsMax) return;
    observer.onConnectionRefused();
    response.close();
  });
}

// ---- Life

function serverOf(app: TemplatedApp, context: CallContext): HttpServer {
  let listening: us_listen_socket | null = null;
  const sweep = setInterval(() => {
    context.open.expire(performance.now());
  }, LIMITS.frontSweepMs);

  function listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      const onListening = (socket: us_listen_socket | false): void => {
        if (socket === false) {
          void whyCannotListen(host, port).then((why) => reject(new CannotListen(host, port, why)));
          return;
        }
        listening = socket;
        resolve(us_socket_local_port(socket as never));
      };
      const listenExclusively = app.listen.bind(app) as unknown as (
        host: string,
        port: number,
        options: number,
        onListening: (socket: us_listen_socket | false) => void,
      ) => void;
      listenExclusively(host, port, EXCLUSIVE_PORT, onListening);
    });
  }

  async function stop(): Promise<void> {
    context.closing = true;
    if (listening !== null) us_listen_socket_close(listening);
    listening = null;
    // Of a connection in steady use the next request may lie in its socket: it is answered, and the connection let go.
    await turned();
    const { open } = context;
    const lastAt = performance.now() + context.bounds.frontStopPourMs;
    // The sweep bounds this wait: every open call ends at its deadline.
    await until(() => open.count === 0 && (open.pouring.size === 0 || performance.now() >= lastAt));
    clearInterval(sweep);
    app.close();
  }

  return { listen, stop };
}

/** What lay in the sockets is read: the loop looked at all of them between the two. */
function turned(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(() => setImmediate(resolve));
  });
}

function until(isSo: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (isSo()) resolve();
      else setTimeout(look, LIMITS.frontStopLookMs);
    };
    look();
  });
}

// ---- Routes

function addRoute(app: TemplatedApp, context: CallContext, options: ServerOptions, route: Route): void {
  const guarded = guardedHandler(context, options, route, route.method);
  switch (route.method) {
    case 'GET':
      app.get(route.path, guarded);
      app.head(route.path, guardedHandler(context, options, route, 'HEAD'));
      return;
    case 'POST':
      app.post(route.path, guarded);
      return;
    case 'PUT':
      app.put(route.path, guarded);
      return;
    case 'PATCH':
      app.patch(route.path, guarded);
      return;
    case 'DELETE':
      app.del(route.path, guarded);
      return;
  }
}

function guardedHandler(
  context: CallContext,
  options: ServerOptions,
  route: Route,
  method: RouteName['method'],
): Handler {
  const name: RouteName = { surface: options.surface.name, method, path: route.path };
  const handler = handlerOf(context, options, route, name);
  return (response, request) => {
    if (endsElsewhere(request)) response.close();
    else if (context.open.makeRoom(context.bounds.frontRequestsOpenMax)) handler(response, request);
    else new Call(context, name, true, response).refuse(UNAVAILABLE);
  };
}

/** uWebSockets reads a body of any coding as chunks. For a proxy that takes it for another the request ends elsewhere, and what
 *  follows would be one more, that the proxy has not seen. */
function endsElsewhere(request: HttpRequest): boolean {
  const coding = request.getHeader('transfer-encoding');
  return coding !== '' && (coding.toLowerCase() !== 'chunked' || isSentTwice(request, 'transfer-encoding'));
}

/** Of the lines of a header `getHeader` knows the first. */
function isSentTwice(request: HttpRequest, header: string): boolean {
  let lines = 0;
  request.forEach((name) => {
    if (name === header) lines++;
  });
  return lines > 1;
}

function handlerOf(context: CallContext, options: ServerOptions, route: Route, name: RouteName): Handler {
  const { bus } = options;
  const gate = { bus, partitions: bus.partitions('accounts'), lists: context.lists };
  switch (route.type) {
    case 'create':
      return createHandler(context, gate, route, name);
    case 'read':
      return readHandler(context, gate, route, name);
    case 'plain':
      return plainHandler(context, options.surface, route, name);
    case 'raw':
      return rawHandler(context, route, name);
  }
}

function createHandler(
  context: CallContext,
  gate: AccountGate,
  route: CreateRoute,
  name: RouteName,
): Handler {
  const facts = { route, validate: compileBody(route.body) };
  return (response, request) => {
    const call = new Call(context, name, false, response);
    if (!isJson(request.getHeader('content-type'))) {
      call.refuse(UNSUPPORTED_MEDIA_TYPE);
      return;
    }
    create(gate, facts, call, request.getHeader('authorization'), request.getHeader('idempotency-key'));
  };
}

function readHandler(context: CallContext, gate: AccountGate, route: ReadRoute, name: RouteName): Handler {
  const [parameter] = Object.values(route.parameters);
  const facts = {
    route,
    idPattern: parameter === undefined ? null : new RegExp(parameter.schema.pattern),
    idNotFound: parameter === undefined ? null : rejection(parameter.notFound),
    parseQuery: route.query === null ? null : compileQuery(route.query),
  };
  const takesQuery = facts.parseQuery !== null;
  return (response, request) => {
    const call = new Call(context, name, true, response);
    const id = parameter === undefined ? '' : (request.getParameter(0) ?? '');
    const query = takesQuery ? (request.getQuery() ?? '') : '';
    read(gate, facts, call, request.getHeader('authorization'), id, query);
  };
}

function plainHandler(context: CallContext, surface: Surface, route: PlainRoute, name: RouteName): Handler {
  const names = Object.keys(route.parameters);
  const facts = {
    route,
    authorise: surface.authorise,
    names,
    patterns: Object.values(route.parameters).map((parameter) => new RegExp(parameter.schema.pattern)),
    parseQuery: route.query === null ? null : compileQuery(route.query),
    validate: route.body === null ? null : compileBody(route.body),
  };
  return (response, request) => {
    const call = new Call(context, name, route.method === 'GET', response);
    if (facts.validate !== null && !isJson(request.getHeader('content-type'))) {
      call.refuse(UNSUPPORTED_MEDIA_TYPE);
      return;
    }
    plain(facts, call, {
      path: request.getUrl(),
      query: request.getQuery() ?? '',
      authorization: request.getHeader('authorization'),
      operator: request.getHeader('operator'),
      parameters: names.map((_, index) => request.getParameter(index) ?? ''),
    });
  };
}

function rawHandler(context: CallContext, route: RawRoute, name: RouteName): Handler {
  return (response, request) => {
    const call = new Call(context, name, true, response);
    raw(route, call, request.getUrl());
  };
}

/** "application/json", with any parameters (charset is ignored: JSON is UTF-8). */
function isJson(contentType: string): boolean {
  return contentType === 'application/json' || /^application\/json\s*(?:;.*)?$/i.test(contentType);
}

// ---- What no route matches

function unmatched(context: CallContext, surface: Surface): Handler {
  const name: RouteName = { surface: surface.name, method: '*', path: '*' };
  const headName: RouteName = { ...name, method: 'HEAD' };
  const methodsByPath = new Map<string, string[]>();
  for (const { method, path } of surface.routes) {
    const methods = method === 'GET' ? ['GET', 'HEAD'] : [method];
    methodsByPath.set(path, [...(methodsByPath.get(path) ?? []), ...methods]);
  }
  const paths = Array.from(methodsByPath, ([path, methods]) => ({
    pattern: patternOf(path),
    allow: methods.join(', '),
  }));
  return (response, request) => {
    if (endsElsewhere(request)) {
      response.close();
      return;
    }
    const isHead = request.getMethod() === 'head';
    const call = new Call(context, isHead ? headName : name, true, response);
    const url = request.getUrl();
    const allow = paths.find(({ pattern }) => pattern.test(url))?.allow ?? null;
    call.refuseUnmatched(allow);
  };
}

function patternOf(path: string): RegExp {
  const source = path.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+').replace(/\*$/, '.*');
  return new RegExp(`^${source}$`);
}
