//! Mail from an unknown host, which is verified. Signatures name as many fields as a header holds,
//! and headers have as many. Other headers have empty fields alone. Or the sender's own name server
//! gives the longest answers that there are.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};

use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, LONG_ANSWERS, SIGNER, Stage, last_words};

/// The hash of an empty body (RFC 6376 §3.4.4), so that the covered fields are looked for.
const EMPTY: &str = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

pub fn headers(stage: &Stage) -> Outcome {
    let names: Vec<String> = (0..20_000).map(|name| format!("x{name}")).collect();
    let signed = |names: &str| {
        let signature = "A".repeat(86);
        format!(
            "a=ed25519-sha256; c=relaxed/relaxed; d={SIGNER}; s=s; h={names}; bh={EMPTY}; b={signature}==\r\n"
        )
    };
    let names = names.join(":");
    let (dkim, arc) = (signed(&names), signed(&names));
    let fields = "y:\r\n".repeat(9_000);
    let domain = format!("DKIM-Signature: v=1; {}", signed("from"))
        .replace(SIGNER, &"d".repeat(stage.of(100_000, 900_000)));
    let kinds = [
        ("20,000 names", format!("DKIM-Signature: v=1; {dkim}{fields}"), "250"),
        (
            "a chain of 20,000 names",
            format!(
                "ARC-Seal: i=1; a=ed25519-sha256; cv=none; d={SIGNER}; s=s; b=AAAA\r\n\
                 ARC-Message-Signature: i=1; {arc}ARC-Authentication-Results: i=1; a.example; spf=pass\r\n{fields}"
            ),
            "250",
        ),
        ("4,000 signatures", format!("DKIM-Signature: v=1; {}", signed("from:to")).repeat(4_000), "250"),
        ("9,000 that are none", "DKIM-Signature: v=1; a=x\r\n".repeat(9_000), "250"),
        ("a long domain", domain, "250"),
        ("authors", format!("From: {}\r\n", "a@b,\r\n ".repeat(100_000)), "250"),
        ("lines", "a\r\n".repeat(stage.of(1_000_000, 20_000_000)), "552"),
    ];
    let mut said = Vec::new();
    for (kind, header, expected) in &kinds {
        let mut open = Vec::new();
        for _ in 0..stage.of(2, 16) {
            let mut socket = stage.untrusted_host("smtp").map_err(text)?;
            deliver(&mut socket, SIGNER, header)?;
            open.push(socket);
        }
        for mut socket in open {
            let reply = reply(&mut socket)?;
            // A host that sends too much at a time may be deferred.
            if !reply.starts_with(expected) && !reply.starts_with('4') {
                return Err(format!("{kind}: {reply:?}"));
            }
        }
        said.push(*kind);
        stage.bystander_gets_mail()?;
    }
    stage.hold()?;
    Ok(said.join(", "))
}

/// Each message asks for a dozen names that nobody asked for before, and each answer has 64 KiB.
pub fn long_answers(stage: &Stage) -> Outcome {
    let (mut taken, mut sent) = (0, 0);
    for round in 0..stage.of(2, 20) {
        let mut open = Vec::new();
        // Four networks, since each may have a part of the verifications.
        for (place, network) in (0..stage.of(2, 16)).zip((0..4).cycle()) {
            let domain = format!("d{round}-{place}.{LONG_ANSWERS}");
            let signature = "A".repeat(86);
            let signed = |selector: usize| {
                format!(
                    "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed; d={domain}; \
                     s=s{selector}; h=from; bh={EMPTY}; b={signature}==\r\n"
                )
            };
            let signatures: String = (0..8).map(signed).collect();
            let mut socket = stage.socket_from("smtp", Ipv4Addr::new(203, 0, network, 1)).map_err(text)?;
            deliver(&mut socket, &domain, &format!("{signatures}From: a@{domain}\r\n"))?;
            open.push(socket);
        }
        for mut socket in open {
            let reply = reply(&mut socket)?;
            sent += 1;
            match reply.as_bytes().first() {
                Some(b'2') => taken += 1,
                Some(b'4') => {}
                _ => return Err(format!("{reply:?}")),
            }
        }
        stage.bystander_gets_mail()?;
    }
    stage.hold()?;
    if taken == 0 {
        return Err(format!("none of {sent} messages was verified"));
    }
    Ok(format!("{taken} of {sent} taken"))
}

/// The last reply of a host that closes the connection then.
fn reply(socket: &mut TcpStream) -> Result<String, String> {
    let last = last_words(socket).map_err(text)?;
    Ok(last.lines().rev().find(|line| !line.starts_with("221")).unwrap_or_default().to_owned())
}

/// Sends a message of this header and no body.
fn deliver(socket: &mut TcpStream, domain: &str, header: &str) -> Result<(), String> {
    let envelope = format!("EHLO a.example\r\nMAIL FROM:<a@{domain}>\r\nRCPT TO:<{ATTACKER}>\r\nDATA\r\n");
    for piece in [envelope.as_str(), header, "\r\n.\r\nQUIT\r\n"] {
        socket.write_all(piece.as_bytes()).map_err(text)?;
    }
    Ok(())
}
