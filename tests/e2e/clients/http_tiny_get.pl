# http_tiny_get.pl URL TIMEOUT [COUNT]: prints the answer's body by Perl's HTTP::Tiny, COUNT times over one connection.
use strict;
use warnings;
use HTTP::Tiny;

my ($url, $timeout, $count) = @ARGV;
my $http = HTTP::Tiny->new(timeout => $timeout, keep_alive => defined $count);
for (1 .. ($count // 1)) {
    my $answer = $http->get($url);
    # 599 is its own word for "no answer".
    if ($answer->{status} == 599) {
        print STDERR $answer->{content};
        exit 1;
    }
    print $answer->{content};
}
