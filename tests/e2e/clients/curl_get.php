<?php
// curl_get.php URL TIMEOUT_MS [COUNT]: prints the answer's body by PHP's curl extension, COUNT times over one handle.
// TIMEOUT_MS 0: none.
[, $url, $timeout] = $argv;
$handle = curl_init($url);
curl_setopt_array($handle, [CURLOPT_RETURNTRANSFER => true, CURLOPT_TIMEOUT_MS => (int) $timeout]);
for ($left = (int) ($argv[3] ?? 1); $left > 0; $left--) {
    $body = curl_exec($handle);
    if ($body === false) {
        fwrite(STDERR, 'curl: ' . curl_errno($handle) . ' ' . curl_error($handle) . "\n");
        exit(1);
    }
    echo $body;
}
