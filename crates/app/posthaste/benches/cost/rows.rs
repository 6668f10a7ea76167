//! The rows that are measured on a server that runs.

use posthaste_testkit::Server;

use crate::client::{Client, append_one};
use crate::measure::{INDEX_FOLLOWS, measured, measured_to_the_end, private_bytes, wait_for_background};
use crate::table::{MS, Table};
use crate::{SAMPLES, USER, four_kibibytes};

/// How many mailboxes of this size a row of single commands has. One such command varies by a
/// third.
fn alike(size: usize) -> usize {
    if size <= 10_000 { 8 } else { 1 }
}

/// The folders of this many messages. `F1000` is the first one, `F1000-1` the second.
pub fn folders_of(size: usize) -> impl Iterator<Item = String> {
    let further = (1..alike(size)).map(move |number| format!("F{size}-{number}"));
    std::iter::once(format!("F{size}")).chain(further)
}

/// The accounts whose INBOX has this many messages.
pub fn accounts_with(size: usize) -> impl Iterator<Item = String> {
    (0..alike(size)).map(move |number| format!("has{size}-{number}@example.org"))
}

/// Folders nobody has open, their index on disk but in the page cache. Then the first one again,
/// many times: the kernel notes the CPU of so short a command only when its thread waits.
pub fn opening(server: &Server, table: &mut Table, sizes: &[usize]) {
    const TIMES: usize = 100;
    let mut client = Client::login(server.address("imap"));
    // The first command of a process also pays for its threads.
    client.ask("SELECT F100");
    for size in sizes {
        let before = private_bytes(server);
        let (cpu, wall) = measured(server, || {
            folders_of(*size).for_each(|folder| _ = client.ask(&format!("SELECT {folder}")));
        });
        let grown = private_bytes(server).saturating_sub(before);
        table.take(
            &format!("SELECT of {size}, nobody has it open"),
            match size {
                100_000 => "≤ 5 ms",
                500_000 => "< 40 ms",
                _ => "",
            },
            "ms",
            MS * alike(*size) as f64,
            (cpu, wall),
        );
        let messages = (*size * alike(*size)) as f64;
        eprintln!("opening {size}: {:.1} bytes a message", grown as f64 / messages);
        for _ in 0..SAMPLES {
            let (cpu, wall) = measured(server, || {
                for _ in 0..TIMES {
                    client.ask(&format!("SELECT F{size}"));
                }
            });
            let reach = if *size == 100_000 { "≤ 0.1 ms" } else { "" };
            table.take(&format!("SELECT of {size}, cached"), reach, "ms", MS * TIMES as f64, (cpu, wall));
        }
    }
}

/// The cost of each message of a listing or a search.
pub fn listings(server: &Server, table: &mut Table, sizes: &[usize]) {
    let mut client = Client::login(server.address("imap"));
    let rows = [
        ("FETCH 1:* (UID FLAGS)", "≤ 75 ns"),
        ("FETCH 1:* (ENVELOPE)", "≤ 300 ns"),
        (
            "FETCH 1:* (UID RFC822.SIZE FLAGS BODY.PEEK[HEADER.FIELDS (DATE FROM TO SUBJECT MESSAGE-ID)])",
            "≤ 450 ns",
        ),
        ("SEARCH SUBJECT \"no such words\"", "≤ 200 ns"),
    ];
    for (command, reach) in rows {
        // The sizes in turn, so that they are compared in the same moments.
        for size in (0..SAMPLES).flat_map(|_| sizes) {
            client.ask(&format!("EXAMINE F{size}"));
            // As many messages of a small folder as of a large one: the least of short samples is
            // less than that of long ones.
            let times = (200_000 / size).max(1);
            let (cpu, wall) = measured(server, || {
                for _ in 0..times {
                    client.ask(command);
                }
            });
            let name = format!("{command} at {size}, per message");
            table.take(&name, reach, "ns", (size * times) as f64, (cpu, wall));
        }
    }
}

/// A short session from connect to LOGOUT.
pub fn sessions(server: &Server, table: &mut Table) {
    const TIMES: usize = 50;
    let (cpu, wall) = measured(server, || {
        for _ in 0..TIMES {
            let mut client = Client::login(server.address("imap"));
            client.ask("SELECT F100");
            client.ask("FETCH 1:* (UID FLAGS)");
            client.ask("LOGOUT");
        }
    });
    let name = "connect, LOGIN, SELECT of 100, FETCH 1:* (UID FLAGS), LOGOUT";
    table.take(name, "≤ 0.25 ms", "ms", MS * TIMES as f64, (cpu, wall));
}

/// APPEND, COPY, STORE and EXPUNGE.
pub fn changes(server: &Server, table: &mut Table, round: usize) {
    let mut client = Client::login(server.address("imap"));
    let target = format!("Work{round}");
    client.ask(&format!("CREATE {target}"));
    append(server, &mut client, table, &target);
    client.ask("SELECT F10000");
    wait_for_background(server);
    let copy = |client: &mut Client, set: &str| _ = client.ask(&format!("COPY {set} {target}"));
    // Commits on this many messages are in the index before they are acknowledged: nothing follows.
    std::thread::sleep(INDEX_FOLLOWS);
    let (cpu, wall) = measured(server, || copy(&mut client, "1:1000"));
    table.take("COPY of 1,000", "≤ 2 ms", "ms", MS, (cpu, wall));
    copy(&mut client, "1:9000");
    // A part of it may be done while messages are copied. It has no wall time: nobody waits.
    let (cpu, _) = measured(server, || wait_for_background(server));
    table.take("after it, in the background: search index of 10,000 copies", "", "ms", MS, (cpu, 0));
    client.ask(&format!("SELECT {target}"));
    for flag in ["+FLAGS (\\Seen)", "-FLAGS (\\Seen)"] {
        let (cpu, wall) = measured(server, || _ = client.ask(&format!("STORE 1:10000 {flag}")));
        if flag.starts_with('+') {
            table.take("STORE +FLAGS (\\Seen) of 10,000", "≤ 4 ms", "ms", MS, (cpu, wall));
        }
    }
    client.ask("STORE 1:1000 +FLAGS.SILENT (\\Deleted)");
    let (cpu, wall) = measured_to_the_end(server, || _ = client.ask("EXPUNGE"));
    table.take("EXPUNGE of 1,000", "≤ 2 ms", "ms", MS, (cpu, wall));
    client.ask("CLOSE");
    client.ask(&format!("DELETE {target}"));
    wait_for_background(server);
}

/// 4 KiB to one recipient, one at a time, each on disk before the next. There are three rows. One
/// is as an MTA that knows PIPELINING sends it. One waits for the answer to each command. One has a
/// connection for each message.
pub fn lmtp_deliveries(server: &Server, table: &mut Table) {
    const TIMES: usize = 100;
    let mut text = four_kibibytes();
    text.extend_from_slice(b".\r\n");
    let connected = || {
        let mut client = Client::connect(server.address("lmtp"), "220 ");
        client.say(b"LHLO client.example\r\n", "250 ");
        client
    };
    let mut client = connected();
    let (mail, rcpt) = ("MAIL FROM:<ben@example.org>\r\n", format!("RCPT TO:<{USER}>\r\n"));
    let together = format!("{mail}{rcpt}DATA\r\n");
    let (cpu, wall) = measured_to_the_end(server, || {
        for _ in 0..TIMES {
            client.say(together.as_bytes(), "354 ");
            client.say(&text, "250 ");
        }
    });
    let name = "LMTP delivery of 4 KiB, durable";
    table.take(name, "≤ 0.22 ms CPU, as APPEND", "ms", MS * TIMES as f64, (cpu, wall));
    let (cpu, wall) = measured_to_the_end(server, || {
        for _ in 0..TIMES {
            client.say(mail.as_bytes(), "250 ");
            client.say(rcpt.as_bytes(), "250 ");
            client.say(b"DATA\r\n", "354 ");
            client.say(&text, "250 ");
        }
    });
    table.take("LMTP delivery of 4 KiB, an answer to each command", "", "ms", MS * TIMES as f64, (cpu, wall));
    let (cpu, wall) = measured_to_the_end(server, || {
        for _ in 0..TIMES {
            let mut client = connected();
            client.say(together.as_bytes(), "354 ");
            client.say(&text, "250 ");
            client.say(b"QUIT\r\n", "221 ");
        }
    });
    let name = "connect, LHLO, LMTP delivery of 4 KiB, QUIT";
    table.take(name, "", "ms", MS * TIMES as f64, (cpu, wall));
    wait_for_background(server);
}

/// 4 KiB, one at a time, each on disk before the next.
fn append(server: &Server, client: &mut Client, table: &mut Table, target: &str) {
    const TIMES: usize = 100;
    let text = four_kibibytes();
    let (cpu, wall) = measured_to_the_end(server, || {
        for _ in 0..TIMES {
            append_one(client, target, &text);
        }
    });
    table.take(
        "APPEND of 4 KiB, durable",
        "≤ 0.22 ms CPU, ≤ 0.5 ms wall",
        "ms",
        MS * TIMES as f64,
        (cpu, wall),
    );
}
