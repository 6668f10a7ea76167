//! The rows that are measured on a server that has just started.

use posthaste_testkit::{PYTHON_SESSIONS, run_python};

use crate::client::{Client, Lmtp, append_one};
use crate::measure::measured_to_the_end;
use crate::rows::{accounts_with, opening};
use crate::table::MS;
use crate::{Options, PASSWORD, Side, USER, four_kibibytes};

/// One message into each INBOX of a size that nobody has opened since the server started: by
/// APPEND, and on another start by LMTP. Twenty to a small mailbox come before, so that only what
/// depends on the mailbox differs.
pub fn deliveries(side: &mut Side, sizes: &[usize]) {
    const WARM: usize = 20;
    let text = four_kibibytes();
    let server = side.start();
    let mut warm = Client::login(server.address("imap"));
    (0..WARM).for_each(|_| append_one(&mut warm, "F100", &text));
    for size in sizes {
        let log_in = |account: String| Client::login_as(server.address("imap"), &account);
        let mut clients: Vec<_> = accounts_with(*size).map(log_in).collect();
        let work = || clients.iter_mut().for_each(|client| append_one(client, "INBOX", &text));
        let used = measured_to_the_end(&server, work);
        take_for_each(side, &format!("APPEND of 4 KiB to {size} that nobody has open"), clients.len(), used);
    }
    server.stop();
    let server = side.start();
    let mut lmtp = Lmtp::connect(server.address("lmtp"));
    (0..WARM).for_each(|_| lmtp.deliver(USER, &text));
    for size in sizes {
        let accounts: Vec<_> = accounts_with(*size).collect();
        let work = || accounts.iter().for_each(|account| lmtp.deliver(account, &text));
        let used = measured_to_the_end(&server, work);
        let name = format!("LMTP delivery of 4 KiB to {size} that nobody has open");
        take_for_each(side, &name, accounts.len(), used);
    }
    server.stop();
}

/// One message copied, and then moved, into each INBOX of a size that nobody has opened since the
/// server started. Its account has the folder of one message that it comes from.
pub fn copies(side: &mut Side, sizes: &[usize]) {
    let server = side.start();
    let text = four_kibibytes();
    for command in ["COPY", "MOVE"] {
        let select = |account: String| {
            let mut client = Client::login_as(server.address("imap"), &account);
            client.ask(&format!("CREATE {command}"));
            append_one(&mut client, command, &text);
            client.ask(&format!("SELECT {command}"));
            client
        };
        let sessions = sizes.iter().map(|size| (size, accounts_with(*size).map(select).collect::<Vec<_>>()));
        for (size, mut clients) in sessions.collect::<Vec<_>>() {
            let ask = |client: &mut Client| _ = client.ask(&format!("{command} 1 INBOX"));
            let used = measured_to_the_end(&server, || clients.iter_mut().for_each(ask));
            let name = format!("{command} of one to {size} that nobody has open");
            take_for_each(side, &name, clients.len(), used);
            for client in &mut clients {
                client.ask("CLOSE");
                client.ask(&format!("DELETE {command}"));
            }
        }
    }
    server.stop();
}

/// Takes what a command used in each of so many mailboxes.
fn take_for_each(side: &mut Side, row: &str, mailboxes: usize, used: (u64, u64)) {
    side.table.take(row, "the same for each", "ms", MS * mailboxes as f64, used);
}

/// Opens sessions that idle, and prints how many bytes of its own the server has grown by for each.
const IDLE_SESSIONS: &str = r#"
import sys
pid, port, tls, mailbox, count, user, password = sys.argv[1:]
def open_session():
    stream = connect(port, tls == "tls")
    for text in ["LOGIN %s \"%s\"" % (user, password), "SELECT " + mailbox]:
        command(stream, text)
    stream.sendall(b"t IDLE\r\n")
    line(stream, b"+")
    return stream
# The first ones open the folder and fill the allocator's free lists.
warm = [open_session() for _ in range(100)]
before = anonymous(pid)
idle = [open_session() for _ in range(int(count))]
print((anonymous(pid) - before) // int(count))
"#;

/// The rows of servers that have done nothing yet: opening folders, and then the memory of an
/// idle session. Each row has a server of its own.
pub fn memory(side: &mut Side, options: &Options) {
    let mut rows = vec![("imap", "F1000", 2_000, "≤ 24 KiB"), ("imaps", "F1000", 2_000, "≤ 48 KiB")];
    rows.push(("imaps", "F100000", 2_000, "< 64 KiB"));
    if options.large {
        rows.push(("imaps", "F1000", 10_000, "< 1 GiB in all"));
    }
    for (protocol, mailbox, count, reach) in rows {
        let server = side.start();
        opening(&server, &mut side.table, &options.folders());
        let tls = if protocol == "imaps" { "tls" } else { "plain" };
        let (pid, port) = (server.pid().to_string(), server.address(protocol).port().to_string());
        let args = [&pid, &port, tls, mailbox, &count.to_string(), USER, PASSWORD];
        let output = run_python(&[PYTHON_SESSIONS, IDLE_SESSIONS].concat(), &args);
        let each = output.trim().parse().unwrap_or_else(|_| panic!("{output}"));
        let name = format!("an idle session in {mailbox}, {tls}, of {count}");
        side.table.take(&name, reach, "KiB", 1024.0, (each, each));
    }
}
