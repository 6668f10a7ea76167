# Mail::IMAPClient against the server: every way to log in, mail in and out octet by octet, flags, copies, moves,
# searches, structures, IDLE, a compressed session. Arguments: port, user, password. Dies at the first thing amiss.
use strict;
use warnings;
use Mail::IMAPClient;

my ($port, $user, $password) = @ARGV;
my $imap;

sub connected {
    return Mail::IMAPClient->new(
        Server => '127.0.0.1', Port => $port, User => $user, Password => $password, Uid => 1, Peek => 1, @_,
    ) // die "login (@_): $@";
}

# What a call answers, which must be true.
sub did {
    my ($what, $answer) = @_;
    $answer // die "$what: " . ($imap->LastError // 'nothing answered') . "\n";
    return $answer;
}

sub same {
    my ($what, $got, $wanted) = @_;
    $got eq $wanted or die "$what: [" . substr($got, 0, 300) . "] instead of [" . substr($wanted, 0, 300) . "]\n";
}

connected(Authmechanism => $_)->logout for qw(PLAIN LOGIN);
$imap = connected();
same('separator', $imap->separator, '/');

my @mail = (
    "From: =?utf-8?q?Zo=C3=AB?= <zoe\@example.net>\r\nSubject: plain\r\n\r\n.\r\n..\r\nFrom here\r\n",
    "Subject: no end of line\r\n\r\nx",
    "Subject: eight bits\r\nContent-Type: text/plain; charset=utf-8\r\n\r\ngr\xc3\xbc\xc3\x9fe \xff\r\n",
    "Subject: parts\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b b\"\r\n\r\n"
        . "--b b\r\n\r\none\r\n--b b\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ntwo\r\n--b b--\r\n",
    "Subject: long\r\n\r\n" . ('0123456789' x 7 . "\r\n") x 3000,
);
did('create', $imap->create('Perl/a b'));
did('select', $imap->select('Perl/a b'));
my @uids = map { did('append', $imap->append_string('Perl/a b', $_)) } @mail;
my $old = did('append', $imap->append_string('Perl/a b', "Subject: old\r\n\r\nx\r\n", '\\Seen $Kept', '01-Jan-2020 10:00:00 +0200'));
did('noop', $imap->noop);
for my $at (0 .. $#mail) {
    same("message $uids[$at]", did('fetch', $imap->message_string($uids[$at])), $mail[$at]);
    same("size of $uids[$at]", $imap->size($uids[$at]), length $mail[$at]);
}
same('flags', join(' ', sort grep { $_ ne '\\Recent' } $imap->flags($old)), '$Kept \\Seen');
same('date', $imap->internaldate($old) =~ s/^ //r, '1-Jan-2020 08:00:00 +0000');
same('parts', join(',', $imap->get_bodystructure($uids[3])->parts), '1,2,2.HEAD,2.1');
same('envelope', $imap->get_envelope($uids[0])->subject, 'plain');
same('one part', $imap->bodypart_string($uids[3], 1), 'one');

same('unseen', join(',', $imap->unseen), join(',', @uids));
same('by subject', join(',', $imap->search('SUBJECT', $imap->Quote('eight'))), $uids[2]);
same('by date', join(',', $imap->before('01-Feb-2020')), $old);
same('by either', join(',', $imap->search('OR LARGER 100000 KEYWORD $Kept')), "$uids[4],$old");
did('see', $imap->see($uids[0]));
did('mark', $imap->mark($uids[1]));
did('flag', $imap->set_flag('$Label', $uids[2]));
same('seen', join(',', $imap->seen), "$uids[0],$old");

my @copied = split /,/, did('copy', $imap->copy('Archive', @uids[0, 1]));
same('copied', scalar @copied, 2);
did('move', $imap->move('Archive', $uids[2]));
did('expunge', $imap->expunge);
same('left', join(',', $imap->messages), join(',', @uids[0, 1, 3, 4], $old));
did('select', $imap->select('Archive'));
same('arrived', $imap->message_string(($imap->messages)[2]), $mail[2]);
same('flags along', join(' ', sort grep { $_ ne '\\Recent' } $imap->flags(($imap->messages)[2])), '$Label');

my $other = connected();
did('compress', $other->compress);
my $idle = did('idle', $imap->idle);
did('append elsewhere', $other->append_string('Archive', $mail[4]));
my @responses = $imap->idle_data(60);
did('done', $imap->done($idle));
same('responses', scalar(grep { /^\* 4 EXISTS/ } @responses), 1);
did('select', $other->select('Archive'));
same('compressed', $other->message_string(($other->messages)[3]), $mail[4]);
$other->logout;

did('rename', $imap->rename('Perl/a b', 'Perl/c'));
same('names', join('|', grep { /^Perl/ } sort $imap->folders), 'Perl|Perl/c');
did('delete', $imap->delete($_)) for 'Perl/c', 'Perl';
did('logout', $imap->logout);
print "imapclient: done\n";
