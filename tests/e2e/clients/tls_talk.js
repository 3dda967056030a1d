// Connections over TLS, one behind the other, each with the session of the one before if it is to be resumed: says
// something, waits for the answer or for silence, and is idle for a while before it closes.
// Usage: tls_talk.js PORT '{"count": N, "tickets": so many come of each, "wait": ms, "options": of tls.connect}'
const tls = require("tls");

const wish = JSON.parse(process.argv[3]);

function talk(session) {
  return new Promise((done) => {
    let kept = session, tickets = 0, silence;
    const socket = tls.connect({port: Number(process.argv[2]), host: "127.0.0.1", session, ...wish.options});
    const end = (word) => {
      clearTimeout(silence);
      console.log(word, socket.isSessionReused() ? "resumed" : "new");
      setTimeout(() => socket.destroy(), wish.wait);
    };
    // Not before all that comes by itself is there.
    const wait = () => {
      clearTimeout(silence);
      if (tickets >= wish.tickets) silence = setTimeout(() => end("silence"), wish.wait);
    };
    socket.on("session", (ticket) => {
      kept = ticket;
      tickets++;
      wait();
    });
    socket.on("secureConnect", () => {
      socket.write("question");
      wait();
    });
    socket.once("data", () => end("answer"));
    socket.on("error", (error) => console.log(error.code));
    socket.on("close", () => done(kept));
  });
}

(async () => {
  let session;
  for (let i = 0; i < wish.count; i++) session = await talk(wish.resume ? session : undefined);
})();
