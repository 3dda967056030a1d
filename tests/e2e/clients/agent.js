// agent.js: calls on command over an http.Agent that keeps its connections. Speaks as pool.py does.
const http = require('http');
const readline = require('readline');

const agent = new http.Agent({ keepAlive: true });
const signals = [];
process.on('SIGPIPE', () => signals.push('SIGPIPE'));

function call({ url, timeout }) {
  return new Promise((resolve) => {
    const request = http.get(url, { agent, timeout: timeout * 1000 }, (answer) => {
      answer.resume();
      answer.on('end', () => resolve(answer.statusCode));
      answer.on('error', (error) => resolve(error.code));
    });
    request.on('timeout', () => request.destroy(Object.assign(new Error('timed out'), { code: 'TIMEOUT' })));
    request.on('error', (error) => resolve(error.code));
  });
}

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const command = JSON.parse(line);
  const results = await Promise.all(Array.from({ length: command.count || 1 }, () => call(command)));
  console.log(JSON.stringify({ results, signals }));
}).on('close', () => process.exit(0));
