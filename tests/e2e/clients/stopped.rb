# Waits for an answer that never comes until it is stopped, or has waited long enough itself.
#
# Usage: stopped.rb WAY HOST PORT STATUS
require "socket"
require "timeout"

way, host, port, status = ARGV[0], ARGV[1], ARGV[2].to_i, ARGV[3].to_i
trap("TERM") { exit status } if way == "trap"
trap("CHLD") {} if way == "signalled"
connection = TCPSocket.new(host, port)
connection.write("request")
puts "waits"
$stdout.flush
begin
  if way == "own timeout" || way == "signalled"
    Timeout.timeout(way == "signalled" ? 0.9 : 0.2) { connection.read(1) }
  else
    connection.read(1)
  end
rescue Timeout::Error
  connection.close
  exit status
ensure
  connection.close
end
