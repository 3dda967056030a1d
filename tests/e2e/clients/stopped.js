// Waits for an answer that never comes until it is stopped, or has waited long enough itself.
// Usage: stopped.js WAY HOST PORT STATUS
const net = require('net');
const [way, host, port, status] = process.argv.slice(2);
const leave = () => { connection.destroy(); process.exit(Number(status)); };
const connection = net.connect(Number(port), host, () => {
    connection.write('request', () => console.log('waits'));
});
if (way === 'own timeout')
    setTimeout(leave, 500);
else if (way === 'grace')
    process.on('SIGTERM', () => setTimeout(leave, 1300));
else
    process.on('SIGTERM', leave);
