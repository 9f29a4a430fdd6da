// Fetches a URL as a script would. Node knows the variables for proxies since 22.21; before, fetch has to be told.
const key = Symbol.for("undici.globalDispatcher.1");
const through = (place, done) => {
  const [, host, port] = process.env.https_proxy.match(/([^/@]+):(\d+)$/);
  require("http")
    .request({ host, port, method: "CONNECT", path: `${place.hostname}:${place.port}` })
    .on("connect", (answer, socket) => {
      if (answer.statusCode !== 200) return done(new Error(answer.statusMessage), null);
      const secured = require("tls").connect({ socket, servername: place.hostname }, () => done(null, secured));
      secured.on("error", done);
    })
    .on("error", done)
    .end();
};
(async () => {
  await fetch("data:,");
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < 22 || (major === 22 && minor < 21)) {
    globalThis[key] = new globalThis[key].constructor({ connect: through });
  }
  process.stdout.write(await (await fetch(process.argv[1])).text());
})().catch((fault) => {
  console.error(fault);
  process.exit(1);
});
