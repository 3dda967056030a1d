// cluster.js PORT URL: two workers of node's cluster, whose pages get URL. The master accepts, and hands connections on.
// It prints "up" once both listen: with one alone, that one would get all.
const cluster = require('cluster');
const http = require('http');

const [port, url] = process.argv.slice(2);
if (cluster.isPrimary) {
    let listening = 0;
    cluster.on('listening', () => { if (++listening === 2) console.log('up'); });
    cluster.fork();
    cluster.fork();
} else {
    http.createServer((request, response) => {
        http.get(url, (answer) => answer.pipe(response)).on('error', () => response.end());
    }).listen(Number(port), '127.0.0.1');
}
