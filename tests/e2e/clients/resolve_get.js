// resolve_get.js NAME PORT: asks the name servers by c-ares (dns.resolve4, not libc), then gets from the first address.
const dns = require('dns');
const http = require('http');

const [name, port] = process.argv.slice(2);
dns.resolve4(name, (error, addresses) => {
  if (error) {
    console.error(error.code);
    process.exit(1);
  }
  http.get({ host: addresses[0], port, headers: { host: name } }, (answer) => answer.pipe(process.stdout))
    .on('error', (problem) => { console.error(problem.code); process.exitCode = 1; });
});
