// http2_calls.js URL: a session of HTTP/2 that begins streams on command. Each line of stdin is {"count": n}; each
// stream's end is a line {"stream": k, "said": status or an error's code}, in the order in which they end.
const http2 = require('http2');
const readline = require('readline');
const tell = (what) => console.log(JSON.stringify(what));
let session, begun = 0;

function connect() {
  session = http2.connect(process.argv[2]);
  session.on('error', () => {});
  session.on('close', connect_anew);
}
function connect_anew() { session = null; }

function begin() {
  const stream = ++begun;
  let status = null;
  if (!session || session.destroyed) connect();
  const request = session.request({ ':path': '/' });
  request.on('response', (headers) => { status = headers[':status']; });
  request.on('error', (error) => { status = error.code; });
  request.on('close', () => tell({ stream, said: status }));
  request.resume();
  request.end();
}
readline.createInterface({ input: process.stdin })
  .on('line', (line) => { for (let i = JSON.parse(line).count; i > 0; i--) begin(); })
  .on('close', () => process.exit(0));
