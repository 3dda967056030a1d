<?php
// curl_get.php URL TIMEOUT_MS: prints the answer's body, by PHP's curl extension. TIMEOUT_MS 0: none.
[, $url, $timeout] = $argv;
$handle = curl_init($url);
curl_setopt_array($handle, [CURLOPT_RETURNTRANSFER => true, CURLOPT_TIMEOUT_MS => (int) $timeout]);
$body = curl_exec($handle);
if ($body === false) {
    fwrite(STDERR, 'curl: ' . curl_errno($handle) . ' ' . curl_error($handle) . "\n");
    exit(1);
}
echo $body;
