<?php
// stream_get.php URL TIMEOUT: prints the answer's body, by PHP's http stream. TIMEOUT 0: none.
[, $url, $timeout] = $argv;
$context = stream_context_create(['http' => ['timeout' => $timeout > 0 ? (float) $timeout : 3600.0]]);
$body = file_get_contents($url, false, $context);
if ($body === false) {
    exit(1);
}
echo $body;
