// fetch_get.js URL TIMEOUT_MS [COUNT]: prints the answer's body by node's fetch, COUNT times. TIMEOUT_MS 0: none.
const [url, timeout, count] = process.argv.slice(2);

async function main() {
  for (let left = Number(count || 1); left > 0; left--) {
    const options = Number(timeout) ? { signal: AbortSignal.timeout(Number(timeout)) } : {};
    const answer = await fetch(url, options);
    process.stdout.write(await answer.text());
    // Only then is its connection free for the next one.
    if (left > 1) await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

main().catch((error) => {
  console.error(`${error.name}: ${error.message} ${error.cause ? error.cause.code : ''}`);
  process.exitCode = 1;
});
