# net_http_get.rb URL TIMEOUT [COUNT]: prints the answer's body by Net::HTTP, COUNT times over one connection.
require 'net/http'

url, timeout, count = URI(ARGV[0]), ARGV[1].to_f, (ARGV[2] || 1).to_i
http = Net::HTTP.new(url.hostname, url.port, nil)
http.use_ssl = url.scheme == 'https'
http.open_timeout = http.read_timeout = timeout
begin
  http.start { count.times { print http.get('/').body } }
rescue SystemCallError, IOError, Timeout::Error, OpenSSL::SSL::SSLError => e
  warn "#{e.class}: #{e.message}"
  exit 1
end
