// http_get.js URL TIMEOUT_MS [COUNT]: prints the answer's body by node's http, COUNT times over one agent that keeps
// its connections. TIMEOUT_MS 0: none.
const net = require('net');

// From node 20 on, a name's addresses are tried one after the other by default; Debian's node 18 must be asked to.
net.setDefaultAutoSelectFamily(true);

const [url, timeout, count] = process.argv.slice(2);
const http = require(url.startsWith('https:') ? 'https' : 'http');
const options = { timeout: Number(timeout) };
if (count) options.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

function get(left) {
  const request = http.get(url, options, (answer) => {
    answer.setEncoding('utf8');
    answer.on('data', (text) => process.stdout.write(text));
    answer.on('end', () => (left > 1 ? setImmediate(get, left - 1) : options.agent && options.agent.destroy()));
  });
  request.on('timeout', () => request.destroy(new Error('timed out')));
  request.on('error', (error) => {
    // What an application has to do itself: a connection that was kept may be gone when it is used again.
    if (request.reusedSocket && error.code === 'ECONNRESET') return get(left);
    console.error(`${error.name}: ${error.message} ${error.code}`);
    process.exitCode = 1;
  });
}
get(Number(count || 1));
