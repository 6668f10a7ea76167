//! Clients that read large rich messages in pieces, by turns: each pays for one conversion and one
//! summary, however little memory there is for conversions.

use posthaste_directory::Precompute;
use posthaste_testkit::Wire;
use posthaste_tnef::samples;

use crate::harness::{Server, response};

/// Bytes of a piece.
const PIECE: usize = 16 * 1024;
/// Memory for conversions: less than one message.
const SERVED_BYTES: usize = 64 * 1024;

/// A rich message with a file of a few hundred KiB.
fn large(name: &str) -> Vec<u8> {
    let mut message = samples::note();
    let file: Vec<u8> = (0..300_000u32).map(|n| (n * 7 % 251) as u8).collect();
    message.attachments.push(samples::file(name, &file));
    samples::mail(&message)
}

fn piece(wire: &mut Wire, uid: u32, at: usize) -> usize {
    wire.send(format!("f UID FETCH {uid} BODY.PEEK[]<{at}.{PIECE}>\r\n").as_bytes());
    let fetched = response(wire);
    wire.expect("f OK …");
    fetched.len()
}

#[test]
fn two_clients_by_turns_pay_once_each() {
    for precompute in [Precompute::FirstFetch, Precompute::Never] {
        let (server, counted) = Server::start_counting(precompute, SERVED_BYTES);
        for name in ["one.bin", "two.bin"] {
            server.deliver_with(&large(name), precompute);
        }
        let mut wires = [server.select("INBOX"), server.select("INBOX")];
        let mut pieces = 0;
        for at in (0..400_000).step_by(PIECE) {
            for (wire, uid) in wires.iter_mut().zip(1..) {
                assert!(piece(wire, uid, at) > PIECE, "a whole piece");
                pieces += 1;
            }
        }
        let (served, summarized) = counted.counts();
        assert!(pieces > 40);
        // One more conversion for those whose items are made before the message is held.
        assert!(
            served <= 4 && summarized <= 4,
            "{precompute:?}: {served} conversions, {summarized} summaries"
        );
        // A client that goes to another message holds that one alone.
        for (wire, uid) in wires.iter_mut().zip([2, 1]) {
            piece(wire, uid, 0);
            piece(wire, uid, PIECE);
        }
        let (again, _) = counted.counts();
        assert!(again <= served + 4, "{precompute:?}: {again} conversions");
        // IDLE ends it: nobody holds anything then.
        for wire in &mut wires {
            wire.run("C: i IDLE\nS: + …\nC: DONE\nS~ i OK …");
        }
        piece(&mut wires[0], 1, 0);
        piece(&mut wires[0], 2, 0);
        let (before, _) = counted.counts();
        piece(&mut wires[0], 1, PIECE);
        assert_eq!(counted.counts().0, before + 1, "{precompute:?}: one message is held, not two");
    }
}
