# A migration by Mail::IMAPClient, in the way of imapsync: folders by name, messages by Message-ID,
# with their flags, dates and labels of Gmail. From one account to another, twice, then after
# changes. Arguments: port, user, other user, password.
# Dies at the first thing amiss.
use strict;
use warnings;
use Mail::IMAPClient;

my ($port, $from, $to, $password) = @ARGV;

sub connected {
    return Mail::IMAPClient->new(
        Server => '127.0.0.1', Port => $port, User => $_[0], Password => $password, Uid => 1, Peek => 1,
    ) // die "login ($_[0]): $@";
}

# What a call answers, which must be defined.
sub did {
    my ($imap, $what, $answer) = @_;
    return $answer // die "$what: " . ($imap->LastError // 'nothing answered') . "\n";
}

sub same {
    my ($what, $got, $wanted) = @_;
    $got eq $wanted or die "$what: [" . substr($got, 0, 300) . "] instead of [" . substr($wanted, 0, 300) . "]\n";
}

# The messages of the selected folder, by Message-ID: UID, flags, date, labels.
sub listed {
    my ($imap) = @_;
    my %by_id;
    my @uids = @{ did($imap, 'search', scalar $imap->search('ALL')) };
    return \%by_id unless @uids;
    my $headers = did($imap, 'headers', $imap->parse_headers(\@uids, 'Message-Id'));
    my $items = did($imap, 'items', scalar $imap->fetch_hash(\@uids, 'FLAGS', 'INTERNALDATE', 'RFC822.SIZE', 'X-GM-LABELS'));
    for my $uid (@uids) {
        my %item = (uid => $uid, %{ $items->{$uid} });
        $item{FLAGS} = join ' ', sort grep { $_ ne '\\Recent' } split / /, $item{FLAGS};
        # In the order of the names: each mailbox has its own.
        $item{'X-GM-LABELS'} = join ' ', sort $item{'X-GM-LABELS'} =~ /"(?:\\.|[^"\\])*"|[^\s"]+/g;
        $by_id{ $headers->{$uid}{'Message-Id'}[0] // die "no Message-ID of $uid\n" } = \%item;
    }
    return \%by_id;
}

# Copies what the other account lacks, and corrects flags and labels. Returns the numbers of messages
# that were copied and that were changed.
sub migrate {
    my ($source, $target) = @_;
    my ($copied, $changed) = (0, 0);
    for my $folder (sort $source->folders) {
        did($source, "examine $folder", $source->examine($folder));
        did($target, "create $folder", $target->create($folder)) unless $target->exists($folder);
        did($target, "select $folder", $target->select($folder));
        my ($here, $there) = (listed($source), listed($target));
        for my $id (sort { $here->{$a}{uid} <=> $here->{$b}{uid} } keys %$here) {
            my ($message, $copy) = ($here->{$id}, $there->{$id});
            my $uid = $copy ? $copy->{uid} : undef;
            if (!$copy) {
                my $text = did($source, 'fetch', $source->message_string($message->{uid}));
                same("size of $id", length $text, $message->{'RFC822.SIZE'});
                $uid = did($target, 'append', $target->append_string($folder, $text, $message->{FLAGS}, $message->{INTERNALDATE}));
                same("UID of $id", join(',', $target->search('HEADER', 'Message-ID', $target->Quote($id))), $uid);
                $copied++;
            } elsif ($copy->{FLAGS} ne $message->{FLAGS}) {
                did($target, 'flags', $target->store($uid, "FLAGS.SILENT ($message->{FLAGS})"));
                $changed++;
            }
            next if ($copy ? $copy->{'X-GM-LABELS'} : '') eq $message->{'X-GM-LABELS'};
            did($target, 'labels', $target->store($uid, "X-GM-LABELS ($message->{'X-GM-LABELS'})"));
        }
    }
    return "$copied,$changed";
}

my ($source, $target) = (connected($from), connected($to));
did($source, 'X-GM-EXT-1', $source->has_capability('X-GM-EXT-1') || undef);
my $label = '"two words" "Gr&APwA3w-e (\\"x\\")" a/b \\Starred';
for my $folder ('INBOX', 'Sent', 'Work/a b', 'Work/Gr&APwA3w-e') {
    did($source, 'create', $source->create($folder)) unless $source->exists($folder);
    for my $n (1 .. 3) {
        my $text = "Subject: $n\r\nMessage-ID: <$n." . length($folder) . "\@x.test>\r\n\r\n$folder $n\r\n" . 'y' x (1000 * $n);
        my $date = sprintf '%02d-Feb-2019 10:00:00 +0200', $n;
        did($source, 'append', $source->append_string($folder, $text, ('\\Seen', '\\Answered $Forwarded', '')[$n - 1], $date));
    }
    did($source, 'select', $source->select($folder));
    did($source, 'label', $source->store('2:3', "+X-GM-LABELS ($label)"));
}

same('first pass', migrate($source, $target), '12,0');
same('second pass', migrate($source, $target), '0,0');
for my $folder ('INBOX', 'Sent', 'Work/a b', 'Work/Gr&APwA3w-e') {
    did($source, 'examine', $source->examine($folder));
    did($target, 'examine', $target->examine($folder));
    my ($here, $there) = (listed($source), listed($target));
    same('messages', scalar(keys %$there), 3);
    for my $id (keys %$here) {
        same("$_ of $id", $there->{$id}{$_}, $here->{$id}{$_}) for 'FLAGS', 'INTERNALDATE', 'RFC822.SIZE', 'X-GM-LABELS';
        same("$id", $target->message_string($there->{$id}{uid}), $source->message_string($here->{$id}{uid}));
    }
    same('labelled', join(',', $target->search('X-GM-LABELS', 'two words')), '2,3');
    same('queried', join(',', $target->search('X-GM-RAW', 'label:two-words is:read')), '');
}

# What changed since.
did($source, 'select', $source->select('Work/a b'));
did($source, 'see', $source->see(3));
did($source, 'unlabel', $source->store(2, '-X-GM-LABELS ("two words")'));
did($source, 'append', $source->append_string('Work/a b', "Message-ID: <new\@x.test>\r\n\r\nnew\r\n"));
same('third pass', migrate($source, $target), '1,2');
did($target, 'examine', $target->examine('Work/a b'));
same('labelled', join(',', $target->search('X-GM-LABELS', 'two words')), '3');
same('seen', join(',', $target->search('SEEN')), '1,3');
did($_, 'logout', $_->logout) for $source, $target;
print "migration: done\n";
