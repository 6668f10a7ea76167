//! UIDBATCHES: RFC 10022.

use crate::harness::Server;

/// An INBOX of 1,280 messages.
fn large() -> Server {
    let server = Server::start();
    server.with_messages(10);
    let mut wire = server.select("INBOX");
    for _ in 0..7 {
        wire.run("C: c COPY 1:* INBOX\nS~ c OK …");
    }
    server
}

#[test]
fn batches_cover_every_uid_from_the_highest_down() {
    let server = large();
    server.select("INBOX").run(
        r#"
        C: A143 UIDBATCHES 500
        S: * UIDBATCHES (TAG "A143") 1280:781,780:281,280:1
        S: A143 OK …
        # A batch may be larger than the mailbox, and as large as a number can be.
        C: b UIDBATCHES 1280
        S: * UIDBATCHES (TAG "b") 1280:1
        S: b OK …
        C: c UIDBATCHES 4294967295
        S: * UIDBATCHES (TAG "c") 1280:1
        S: c OK …
        C: d UIDBATCHES 640
        S: * UIDBATCHES (TAG "d") 1280:641,640:1
        S: d OK …
        # Some of them, and some that are not there.
        C: e UIDBATCHES 500 2:2
        S: * UIDBATCHES (TAG "e") 780:281
        S: e OK …
        C: f UIDBATCHES 500 2:201
        S: * UIDBATCHES (TAG "f") 780:281,280:1
        S: f OK …
        C: f2 UIDBATCHES 500 2:4294967295
        S: f2 NO [TOOMANY] …
        C: g UIDBATCHES 500 4:9
        S: * UIDBATCHES (TAG "g")
        S: g OK …
        # What a batch names has so many messages.
        C: h UID SEARCH RETURN (COUNT) UID 780:281
        S: * ESEARCH (TAG "h") UID COUNT 500
        S: h OK …
        "#,
    );
}

#[test]
fn holes_and_two_sessions() {
    let server = large();
    let (mut one, mut two) = (server.login(), server.select("INBOX"));
    one.run("C: e ENABLE UIDONLY QRESYNC\nS~ e OK …\nC: s SELECT INBOX\nS~ s OK …");
    two.run("C: a UID STORE 700:900 +FLAGS.SILENT (\\Deleted)\nS: a OK …\nC: b EXPUNGE\nS~ b OK …");
    one.run(
        r#"
        # The batches are those of the messages that this session knows; what was expunged follows.
        C: a UIDBATCHES 500 1:1
        S: * UIDBATCHES (TAG "a") 1280:781
        S: * VANISHED 700:900
        S: a OK …
        C: b UIDBATCHES 500
        S: * UIDBATCHES (TAG "b") 1280:580,579:80,79:1
        S: b OK …
        C: c UID SEARCH RETURN (COUNT) UID 1280:580
        S: * ESEARCH (TAG "c") UID COUNT 500
        S: c OK …
        # It leaves the saved result alone.
        C: d UID SEARCH RETURN (SAVE) UID 3
        S: d OK …
        C: e UIDBATCHES 500 3:3
        S: * UIDBATCHES (TAG "e") 79:1
        S: e OK …
        C: f UID FETCH $ UID
        S: * 3 UIDFETCH (UID 3)
        S: f OK …
        # One message is left, then none.
        C: g UID STORE 1:1279 +FLAGS.SILENT (\Deleted)
        S~ g OK …
        C: h EXPUNGE
        S: * VANISHED 1:699,901:1279
        S: h OK [HIGHESTMODSEQ …] …
        C: i UIDBATCHES 500
        S: * UIDBATCHES (TAG "i") 1280:1
        S: i OK …
        C: j UID STORE 1280 +FLAGS.SILENT (\Deleted)
        S~ j OK …
        C: k EXPUNGE
        S: * VANISHED 1280
        S: k OK [HIGHESTMODSEQ …] …
        C: l UIDBATCHES 500
        S: * UIDBATCHES (TAG "l")
        S: l OK …
        "#,
    );
}

#[test]
fn batches_cover_all_uids() {
    let server = Server::start();
    let mut one = server.select("INBOX");
    one.run("C: a UIDBATCHES 500\nS: * UIDBATCHES (TAG \"a\")\nS: a OK …");
    server.with_messages(1_250);
    server
        .select("INBOX")
        .run("C: a UID STORE 700:704,1 +FLAGS (\\Deleted)\nS~ a OK …\nC: b EXPUNGE\nS~ b OK …");
    one.run(
        r#"
        C: a NOOP
        S~ a OK …
        # 1,244 messages: 500, 500 and 244. The second batch lacks five UIDs.
        C: b UIDBATCHES 500
        S: * UIDBATCHES (TAG "b") 1250:751,750:246,245:1
        S: b OK …
        C: c UIDBATCHES 500 2:3
        S: * UIDBATCHES (TAG "c") 750:246,245:1
        S: c OK …
        C: d UIDBATCHES 500 4:9
        S: * UIDBATCHES (TAG "d")
        S: d OK …
        C: e UIDBATCHES 1244
        S: * UIDBATCHES (TAG "e") 1250:1
        S: e OK …
        C: f UIDBATCHES 4294967295
        S: * UIDBATCHES (TAG "f") 1250:1
        S: f OK …
        C: g UID SEARCH RETURN (COUNT) UID 750:246
        S: * ESEARCH (TAG "g") UID COUNT 500
        S: g OK …
        C: h UIDBATCHES 499
        S: h NO [TOOFEW] …
        C: i UIDBATCHES 500 3:2
        S: i BAD [CLIENTBUG] …
        C: j UIDBATCHES 500 1:200
        S: * UIDBATCHES (TAG "j") 1250:751,750:246,245:1
        S: j OK …
        C: k UIDBATCHES 500 1:201
        S: k NO [TOOMANY] …
        C: l UIDBATCHES 500 2
        S: l BAD …
        C: m UIDBATCHES 0
        S: m BAD …
        C: n CLOSE
        S: n OK …
        C: o UIDBATCHES 500
        S: o BAD …
        "#,
    );
}
