// abort.js URL MS: aborts a fetch after so many milliseconds, says how it ended, and lives on until stdin ends.
const [url, ms] = process.argv.slice(2);
fetch(url, { signal: AbortSignal.timeout(Number(ms)) }).then((answer) => answer.status, (error) => error.name)
  .then((word) => console.log(word));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
