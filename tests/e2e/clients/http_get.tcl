# http_get.tcl URL MILLISECONDS [COUNT]: prints the answer's body by Tcl's http, COUNT times over one connection.
package require http

lassign $argv url timeout count
if {$count eq ""} {
    set count 1
}
for {set i 0} {$i < $count} {incr i} {
    if {[catch {http::geturl $url -timeout $timeout -keepalive [expr {$count > 1}]} answer]} {
        puts stderr $answer
        exit 1
    }
    if {[http::status $answer] ne "ok"} {
        puts stderr "[http::status $answer] [http::error $answer]"
        exit 1
    }
    puts -nonewline [http::data $answer]
    http::cleanup $answer
}
