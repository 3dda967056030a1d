<?php
// Waits for an answer that never comes until it is stopped, or has waited long enough itself.
// Usage: stopped.php WAY HOST PORT STATUS
[, $way, $host, $port, $status] = $argv;
pcntl_async_signals(true);
pcntl_signal(SIGTERM, function () use (&$connection, $status) {
    fclose($connection);
    exit((int) $status);
});
$connection = stream_socket_client("tcp://$host:$port");
fwrite($connection, "request");
echo "waits\n";
$deadline = microtime(true) + ($way === "own timeout" ? 0.2 : 60);
while (microtime(true) < $deadline) {
    $read = [$connection];
    $write = $other = null;
    @stream_select($read, $write, $other, 0, 200000);
}
fclose($connection);
exit((int) $status);
