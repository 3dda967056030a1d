// http_get.js URL TIMEOUT_MS: prints the answer's body, by node's own http. TIMEOUT_MS 0: none.
const http = require('http');
const net = require('net');

// From node 20 on, a name's addresses are tried one after the other by default; Debian's node 18 must be asked to.
net.setDefaultAutoSelectFamily(true);

const [url, timeout] = process.argv.slice(2);
const request = http.get(url, { timeout: Number(timeout) }, (answer) => {
  answer.setEncoding('utf8');
  answer.on('data', (text) => process.stdout.write(text));
});
request.on('timeout', () => request.destroy(new Error('timed out')));
request.on('error', (error) => {
  console.error(`${error.name}: ${error.message} ${error.code}`);
  process.exitCode = 1;
});
