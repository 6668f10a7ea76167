//! Many connections, and connections whose client does not read, write or finish.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use posthaste_testkit::client_hello;
use socket2::{Domain, Socket, Type};

use super::lines::PLAIN;
use super::outcome::{Outcome, text};
use crate::Scale;
use crate::stage::{ATTACKER, BYSTANDER, PASSWORD, PROTOCOLS, Stage, push, until};

/// Descriptors that this process keeps for all else.
const KEPT: u64 = 64;

/// As many connections as wanted, or as this process may have.
fn possible(stage: &Stage, wanted: usize) -> usize {
    usize::try_from(stage.descriptors.saturating_sub(KEPT)).unwrap_or(wanted).min(wanted)
}

/// What an answer says if not all wanted connections are possible.
const fn bounded(possible: usize, wanted: usize) -> &'static str {
    if possible < wanted { " (as many as this process may have)" } else { "" }
}

pub fn silent(stage: &Stage) -> Outcome {
    let wanted = stage.of(300, 10_000);
    let possible = possible(stage, wanted);
    let mut open = Vec::new();
    for _ in 0..possible {
        match stage.socket("imap") {
            Ok(socket) => open.push(socket),
            Err(_) => break,
        }
    }
    stage.hold()?;
    Ok(format!("{} open{}", open.len(), bounded(possible, wanted)))
}

/// Addresses of a user and of a host that are in no network of the attackers.
pub(super) const USER_AT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const HOST_AT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);

/// More silent connections from 128 networks than connections without a login may be open. A user
/// who has never logged in does so meanwhile, which takes a hash.
pub fn full(stage: &Stage) -> Outcome {
    let newcomer = stage.newcomer().map_err(text)?;
    let possible = possible(stage, stage.of(450, 13_000));
    let mut open = Vec::new();
    let connect = |n: usize| {
        let (network, host) = (n % 128, 1 + n / 128 % 250);
        let address = Ipv4Addr::new(198, 18, network as u8, host as u8);
        // A connection that is closed before its header was sent does not count.
        stage.socket_from(PROTOCOLS[n % PROTOCOLS.len()], address).ok()
    };
    let first = possible * 9 / 10;
    open.extend((0..first).filter_map(connect));
    // Until its header is read, a connection counts for its proxy, and may be closed for one that
    // comes. So none of the attackers may be on the way.
    stage.all_are_admitted().map_err(|error| format!("beside silent connections {error}"))?;
    let mut user = stage.login_from(USER_AT, &newcomer).map_err(|error| format!("from elsewhere {error}"))?;
    match stage.deliver_from(HOST_AT, BYSTANDER, b"Subject: from elsewhere\r\n\r\nhello\r\n") {
        Ok(reply) if reply.starts_with("250") => {}
        other => return Err(format!("mail from elsewhere: {other:?}")),
    }
    open.extend((first..possible).filter_map(connect));
    stage.hold()?;
    user.imap("NOOP").map_err(|error| format!("a user was disconnected: {error}"))?;
    open.retain_mut(|socket| !is_closed(socket));
    match possible - open.len() {
        // At full scale the server may have more room than this process has descriptors.
        0 if stage.scale == Scale::Quick => Err("the server was not full".into()),
        closed => Ok(format!("{closed} of {possible} closed for others, users served")),
    }
}

/// Whether the server has closed a connection. Reads what came before that.
fn is_closed(socket: &mut TcpStream) -> bool {
    let mut piece = [0; 1024];
    if socket.set_nonblocking(true).is_err() {
        return true;
    }
    loop {
        match socket.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

pub fn churn(stage: &Stage) -> Outcome {
    let count = stage.of(300, 10_000);
    for n in 0..count {
        drop(stage.socket(PROTOCOLS[n % PROTOCOLS.len()]).map_err(text)?);
        if n == count / 2 {
            stage.hold()?;
        }
    }
    Ok(format!("{count} taken"))
}

pub fn slowloris(stage: &Stage) -> Outcome {
    let mut open = Vec::new();
    for n in 0..stage.of(50, 1000) {
        open.push(stage.socket(PLAIN[n % PLAIN.len()]).map_err(text)?);
    }
    let count = open.len();
    for byte in b"a LOGIN mallory@example.org {10}" {
        // A connection that the server closed no longer counts.
        open.retain_mut(|socket| socket.write_all(&[*byte]).is_ok());
    }
    stage.hold()?;
    Ok(format!("{} of {count} still open", open.len()))
}

pub fn handshakes(stage: &Stage) -> Outcome {
    // The head of a record that announces a ClientHello of 512 octets (RFC 8446 §5.1), and half.
    let hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 200]].concat();
    let wanted = stage.of(50, 2000);
    let possible = possible(stage, wanted);
    let mut open = Vec::new();
    for n in 0..possible {
        let mut socket = stage.socket(["imaps", "submissions", "pop3s"][n % 3]).map_err(text)?;
        socket.write_all(&hello).map_err(text)?;
        open.push(socket);
    }
    stage.hold()?;
    Ok(format!("{} wait{}", open.len(), bounded(possible, wanted)))
}

/// The server does the whole of its part for each: an exchange of keys, and a signature.
pub fn hellos(stage: &Stage) -> Outcome {
    let hello = client_hello().map_err(text)?;
    let mut open = Vec::new();
    for n in 0..stage.of(50, 1000) {
        open.push(stage.socket(["imaps", "submissions", "pop3s"][n % 3]).map_err(text)?);
    }
    for socket in &mut open {
        socket.write_all(&hello).map_err(text)?;
    }
    stage.hold()?;
    for socket in &mut open {
        socket.set_read_timeout(Some(Duration::from_secs(60))).map_err(text)?;
        let mut head = [0; 6];
        socket.read_exact(&mut head).map_err(text)?;
        // A record of the handshake, with a ServerHello (RFC 8446 §5.1 and §4).
        if (head[0], head[5]) != (0x16, 2) {
            return Err(format!("a ClientHello was answered with {head:?}"));
        }
    }
    Ok(format!("{} ClientHellos answered, no handshake completed", open.len()))
}

pub fn never_read(stage: &Stage) -> Outcome {
    let mut open = Vec::new();
    for _ in 0..stage.of(10, 200) {
        let mut client = stage.in_large().map_err(text)?;
        client.send(b"a FETCH 1 BODY.PEEK[]\r\nb FETCH 1 BODY.PEEK[TEXT]\r\n").map_err(text)?;
        open.push(client);
    }
    stage.hold()?;
    Ok(format!("{} wait for their readers", open.len()))
}

/// Octets that a slow reader reads at a time.
const FEW: usize = 64;
/// Octets that the system keeps for a slow reader. With 4 KiB Linux drops segments, and sends them
/// again after long pauses.
const KEPT_UNREAD: usize = 16 * 1024;

/// An IMAP connection for which the system keeps few octets, so that the others stay with the
/// server.
fn narrow(stage: &Stage) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    // Its window is announced when it connects.
    socket.set_recv_buffer_size(KEPT_UNREAD)?;
    socket.connect(&stage.address("imap").into())?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket.into())
}

/// Some readers get their next octets. The sessions of others wait for the memory that these hold.
pub fn slow_readers(stage: &Stage) -> Outcome {
    // It makes the mailbox and its message.
    drop(stage.in_large().map_err(text)?);
    let begin = format!("l LOGIN {ATTACKER} \"{PASSWORD}\"\r\ns SELECT Large\r\n");
    let mut open = Vec::new();
    for _ in 0..stage.of(10, 200) {
        let mut socket = narrow(stage).map_err(text)?;
        socket.write_all(begin.as_bytes()).map_err(text)?;
        until(&mut socket, "s OK").map_err(text)?;
        socket.write_all(b"a FETCH 1 BODY.PEEK[]\r\nb FETCH 1 BODY.PEEK[TEXT]\r\n").map_err(text)?;
        open.push(socket);
    }
    for socket in &open {
        socket.set_nonblocking(true).map_err(text)?;
    }
    let (rounds, mut got) = (stage.of(100, 1000), 0);
    let mut piece = [0; FEW];
    for round in 0..rounds {
        for socket in &mut open {
            match socket.read(&mut piece) {
                Ok(0) => return Err("a slow reader was cut off".to_owned()),
                Ok(count) => got += count,
                // Its session waits for the memory that others of the account hold.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("a slow reader got no more: {error}")),
            }
        }
        std::thread::sleep(Duration::from_millis(5));
        if round == rounds / 2 {
            stage.hold()?;
        }
    }
    match got {
        0 => Err("no slow reader got anything".to_owned()),
        _ => Ok(format!("{} got {got} octets, {FEW} at a time", open.len())),
    }
}

pub fn noops(stage: &Stage) -> Outcome {
    let mut socket = stage.socket("imap").map_err(text)?;
    // Before a login most of them would wait.
    let login = format!("l LOGIN {ATTACKER} \"{PASSWORD}\"\r\n");
    socket.write_all(login.as_bytes()).map_err(text)?;
    let mut left = stage.of(20_000, 300_000) / 1000;
    let sent = push(stage, &mut socket, || {
        left = left.checked_sub(1)?;
        Some(b"a NOOP\r\n".repeat(1000))
    })?;
    stage.hold()?;
    Ok(format!("{} NOOPs taken", sent / 8))
}

pub fn idle(stage: &Stage) -> Outcome {
    let mut open = Vec::new();
    for _ in 0..stage.of(20, 500) {
        let mut client = stage.login(ATTACKER).map_err(text)?;
        client.imap("SELECT INBOX").map_err(text)?;
        client.send(b"i IDLE\r\n").map_err(text)?;
        client.line().map_err(text)?;
        open.push(client);
    }
    for _ in 0..stage.of(5, 100) {
        stage.deliver(ATTACKER, b"Subject: wake up\r\n\r\n").map_err(text)?;
    }
    for client in &mut open {
        let line = client.line().map_err(text)?;
        if !line.ends_with("EXISTS") {
            return Err(format!("an idle session was sent {line:?}"));
        }
    }
    stage.hold()?;
    Ok(format!("{} reported it", open.len()))
}
