// Leads `fetch` to the gate in versions of Node that do not look at the proxy variables by themselves.
// Required by every Node in a sandbox (NODE_OPTIONS), so it does nothing until somebody fetches.
'use strict';

const [major, minor] = process.versions.node.split('.').map(Number);
const looksItself = major >= 24 || (major === 22 && minor >= 21);
const proxy = process.env.https_proxy;

if (proxy && globalThis.fetch && !looksItself) {
  const original = globalThis.fetch;
  let prepared = false;
  globalThis.fetch = function fetch(...given) {
    if (!prepared) prepare();
    prepared = true;
    return original.apply(this, given);
  };
}

function prepare() {
  new Headers(); // has Node load what its fetch is made of
  const place = Symbol.for('undici.globalDispatcher.1');
  const Agent = globalThis[place] && globalThis[place].constructor;
  if (Agent) globalThis[place] = new Agent({ connect });
}

function connect(options, done) {
  const host = options.hostname.replace(/^\[|\]$/g, '');
  const secure = options.protocol === 'https:';
  const port = Number(options.port) || (secure ? 443 : 80);
  const direct = (process.env.no_proxy || '').split(',').includes(host);
  (direct ? dial : tunnel)(host, port, done, (socket) => (secure ? protect(socket, options, done) : done(null, socket)));
}

function dial(host, port, done, ready) {
  const socket = require('net').connect(port, host);
  socket.once('error', done);
  socket.once('connect', () => {
    socket.removeListener('error', done);
    ready(socket);
  });
}

function tunnel(host, port, done, ready) {
  const gate = new URL(proxy);
  const path = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const headers = { host: path };
  if (gate.username) {
    const login = `${decodeURIComponent(gate.username)}:${decodeURIComponent(gate.password)}`;
    headers['proxy-authorization'] = `Basic ${Buffer.from(login).toString('base64')}`;
  }
  const asking = require('http').request({
    host: gate.hostname, port: gate.port, method: 'CONNECT', path, headers, agent: false,
  });
  asking.once('error', done);
  asking.once('connect', (answer, socket) => {
    if (answer.statusCode === 200) return ready(socket);
    socket.destroy();
    return done(new Error(answer.statusMessage || `the gate answered ${answer.statusCode}`));
  });
  asking.end();
}

function protect(socket, options, done) {
  const servername = options.servername || options.hostname;
  const protectedSocket = require('tls').connect({ socket, servername, ALPNProtocols: ['http/1.1'] });
  protectedSocket.once('error', done);
  protectedSocket.once('secureConnect', () => {
    protectedSocket.removeListener('error', done);
    done(null, protectedSocket);
  });
}
