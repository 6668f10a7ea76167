//! THREAD: ORDEREDSUBJECT and REFERENCES of RFC 5256 §3, REFS of draft-ietf-morg-inthread.

use std::collections::HashMap;
use std::fmt::Write as _;

use posthaste_testkit::Wire;

use crate::harness::Server;

/// The text after `* THREAD`, or all lines if the command does not end in OK.
fn thread(wire: &mut Wire, arguments: &str) -> String {
    wire.send(format!("q THREAD {arguments}\r\n").as_bytes());
    let lines = wire.skip_to("q …");
    match lines.as_slice() {
        [threads, end] if end.starts_with("q OK ") => match threads.strip_prefix("* THREAD") {
            Some(threads) => threads.trim_start().to_owned(),
            None => threads.clone(),
        },
        lines => lines.join("; "),
    }
}

/// A message: day of January on which it was sent, Message-ID, References, subject.
type Written<'w> = (u32, &'w str, &'w str, &'w str);

fn text_of(&(day, id, references, subject): &Written<'_>) -> String {
    let mut text = format!("Date: {day} Jan 2024 10:00:00 +0000\r\nSubject: {subject}\r\n");
    if !id.is_empty() {
        _ = write!(text, "Message-ID: <{id}@x>\r\n");
    }
    if !references.is_empty() {
        let ids: Vec<String> = references.split(' ').map(|id| format!("<{id}@x>")).collect();
        _ = write!(text, "References: {}\r\n", ids.join("\r\n "));
    }
    text + "\r\n"
}

fn server_with(messages: &[Written<'_>]) -> Server {
    let server = Server::start();
    for message in messages {
        server.put("INBOX", text_of(message).as_bytes());
    }
    server
}

fn threads(messages: &[Written<'_>], rows: &[(&str, &str)]) {
    let server = server_with(messages);
    let mut wire = server.select("INBOX");
    // Twice: the second time the keys are not read again.
    for round in ["read", "kept"] {
        for (arguments, expected) in rows {
            assert_eq!(thread(&mut wire, arguments), *expected, "THREAD {arguments}, keys {round}");
        }
    }
}

#[test]
fn the_first_of_a_subject_is_the_parent() {
    threads(
        &[
            (5, "a", "", "one"),
            (1, "b", "", "two"),
            (4, "c", "", "Re: one"),
            (6, "d", "", "[list] ONE (fwd)"),
            (2, "e", "", "three"),
            (3, "f", "", "Re: two"),
            (3, "g", "", "two"),
        ],
        &[
            ("ORDEREDSUBJECT UTF-8 ALL", "(2 (6)(7))(5)(3 (1)(4))"),
            ("ORDEREDSUBJECT UTF-8 NOT 3", "(2 (6)(7))(5)(1 4)"),
            ("ORDEREDSUBJECT US-ASCII 5", "(5)"),
            ("ORDEREDSUBJECT UTF-8 SEEN", ""),
        ],
    );
}

/// RFC 5256 §3, REFERENCES, step by step.
#[test]
fn references() {
    let same = "REFERENCES UTF-8 ALL";
    // 1: a chain, branches, siblings by date.
    threads(
        &[
            (1, "a", "", "x"),
            (2, "b", "a", "x"),
            (5, "c", "a b", "x"),
            (4, "d", "a b", "x"),
            (3, "e", "a", "x"),
        ],
        &[
            (same, "(1 (2 (4)(3))(5))"),
            ("REFERENCES UTF-8 2:4", "(2 (4)(3))"),
            ("REFERENCES UTF-8 3:4", "((4)(3))"),
        ],
    );
    // A message comes before its parent; the parent is missing; its grandparent is not.
    threads(
        &[(3, "c", "a b", "x"), (1, "a", "", "y"), (2, "d", "a b", "z"), (4, "f", "e", "w")],
        &[(same, "(2 (3)(1))(4)")],
    );
    // 3: a missing first parent stays if it has several children.
    threads(
        &[
            (3, "b", "a", "x"),
            (1, "c", "a", "y"),
            (2, "d", "", "z"),
            (4, "e", "n m", "w"),
            (5, "f", "n m", "w"),
        ],
        &[(same, "((2)(1))(3)((4)(5))")],
    );
    // 1 (A): a link that exists stays. 1 (B): the last reference is the parent, whatever the rest
    // say.
    threads(
        &[(1, "a", "", "x"), (2, "b", "", "y"), (3, "c", "a", "z"), (4, "d", "b c", "w")],
        &[(same, "(1 3 4)(2)")],
    );
    threads(&[(1, "a", "", "x"), (2, "z", "a b", "y"), (3, "b", "", "w")], &[(same, "(1)(3 2)")]);
    // No loops.
    threads(&[(1, "a", "b", "x"), (2, "b", "a", "y")], &[(same, "(2 1)")]);
    threads(&[(1, "a", "a", "x"), (2, "b", "c b", "y"), (3, "c", "b c", "z")], &[(same, "(1)(2)(3)")]);
    // Several messages of one Message-ID, and of none.
    threads(
        &[(1, "a", "", "x"), (2, "a", "", "y"), (3, "b", "a", "z"), (4, "", "a", "w"), (5, "", "", "v")],
        &[(same, "(1 (3)(4))(2)(5)")],
    );
}

/// RFC 5256 §3: without References the first identifier of In-Reply-To; identifiers are compared
/// without their quotes.
#[test]
fn identifiers() {
    let server = Server::start();
    for header in [
        "Message-ID: <\"a.b\"@x>",
        "Message-ID: <c@x>\r\nIn-Reply-To: Your message <a.b@x> of <other@x>",
        "Message-ID: <d@x>\r\nIn-Reply-To: <a.b@x>\r\nReferences: no identifier",
        "Message-ID: <e@x>\r\nIn-Reply-To: <a.b@x>\r\nReferences: <a.b@x> (comment) <c@x>",
        "Message-ID: <A.B@x>",
    ] {
        server.put("INBOX \"01-Jan-2020 10:00:00 +0000\"", format!("{header}\r\n\r\n").as_bytes());
    }
    let mut wire = server.select("INBOX");
    assert_eq!(thread(&mut wire, "REFERENCES UTF-8 ALL"), "(1 (2 4)(3))(5)");
}

/// RFC 5256 §3, step 5.
#[test]
fn threads_of_one_subject_are_merged() {
    let same = "REFERENCES UTF-8 ALL";
    // A reply goes below the message that is not a reply, in any order.
    threads(&[(1, "a", "", "Re: x"), (2, "b", "", "x"), (3, "c", "", "Fwd: x")], &[(same, "(2 (1)(3))")]);
    // Two replies, or two messages that are no replies, get a common parent without a message.
    threads(&[(1, "a", "", "Re: x"), (2, "b", "", "RE: x")], &[(same, "((1)(2))")]);
    threads(&[(1, "a", "", "x"), (2, "b", "", "X"), (3, "c", "", "Re: x")], &[(same, "((1)(2)(3))")]);
    // A parent that no message is takes the others, and its children those of another.
    threads(
        &[
            (4, "a", "m", "x"),
            (5, "b", "m", "y"),
            (1, "c", "", "x"),
            (2, "d", "n", "Re: x"),
            (3, "e", "n", "z"),
        ],
        &[(same, "((3)(4)(5)(1)(2))")],
    );
    // Messages without a subject stay alone. REFS has no such step.
    threads(
        &[(1, "a", "", ""), (2, "b", "", "Re:"), (3, "c", "", "x"), (4, "d", "", "x")],
        &[(same, "(1)(2)((3)(4))"), ("REFS UTF-8 ALL", "(1)(2)(3)(4)")],
    );
}

/// REFS: threads in the order of their newest message, by INTERNALDATE.
#[test]
fn the_thread_with_the_newest_message_is_last() {
    let server = Server::start();
    for (arrived, message) in [
        (1, (1, "a", "", "x")),
        (2, (2, "b", "", "y")),
        (5, (3, "c", "a", "x")),
        (4, (4, "d", "b", "y")),
        (3, (5, "e", "", "z")),
    ] {
        server.put(&format!("INBOX \"0{arrived}-Jan-2024 10:00:00 +0000\""), text_of(&message).as_bytes());
    }
    let mut wire = server.select("INBOX");
    assert_eq!(thread(&mut wire, "REFS UTF-8 ALL"), "(5)(2 4)(1 3)");
    assert_eq!(thread(&mut wire, "REFERENCES UTF-8 ALL"), "(1 3)(2 4)(5)");
}

#[test]
fn numbers_of_both_kinds_and_errors() {
    let server = server_with(&[(1, "a", "", "x"), (2, "b", "", "y"), (3, "c", "a", "x")]);
    let mut wire = server.login();
    wire.send(b"c CAPABILITY\r\n");
    let capability = wire.expect("* CAPABILITY …");
    wire.expect("c OK …");
    for name in ["THREAD=ORDEREDSUBJECT", "THREAD=REFERENCES", "THREAD=REFS"] {
        assert!(capability.split(' ').any(|word| word == name), "{name}: {capability}");
    }
    wire.run(
        r#"
        C: a THREAD REFERENCES UTF-8 ALL
        S: a BAD …
        C: s SELECT INBOX
        S~ s OK [READ-WRITE] …
        C: b THREAD REFERENCES UTF-8 ALL
        S: * THREAD (1 3)(2)
        S: b OK THREAD completed
        C: c STORE 2 +FLAGS.SILENT \Deleted
        S: c OK …
        C: d EXPUNGE
        S: * 2 EXPUNGE
        S: d OK …
        C: e UID THREAD REFERENCES UTF-8 ALL
        S: * THREAD (1 3)
        S: e OK UID THREAD completed
        C: f THREAD ORDEREDSUBJECT UTF-8 FLAGGED
        S: * THREAD
        S: f OK …
        C: g THREAD NONSENSE UTF-8 ALL
        S: g BAD …
        C: h THREAD REFERENCES X-NONE ALL
        S: h NO [BADCHARSET (US-ASCII UTF-8 Big5 …)] …
        C: i THREAD REFERENCES UTF-8
        S: i BAD …
        C: j THREAD REFERENCES ALL
        S: j NO [BADCHARSET …] …
        "#,
    );
}

/// RFC 5256 §3: no EXPUNGE during THREAD, but during UID THREAD.
#[test]
fn others_expunge_meanwhile() {
    let server =
        server_with(&[(1, "a", "", "x"), (2, "b", "a", "x"), (3, "c", "b", "x"), (4, "d", "b", "x")]);
    let mut first = server.select("INBOX");
    let mut second = server.select("INBOX");
    assert_eq!(thread(&mut first, "REFERENCES UTF-8 1:3"), "(1 2 3)");
    second.run("C: a STORE 2 +FLAGS.SILENT \\Deleted\nS: a OK …\nC: b EXPUNGE\nS: * 2 EXPUNGE\nS: b OK …");
    // Its keys are kept, and message 4 is read now.
    assert_eq!(thread(&mut first, "REFERENCES UTF-8 ALL"), "(1 2 (3)(4))");
    first.run(
        "C: a UID THREAD REFERENCES UTF-8 ALL\nS: * THREAD (1 2 (3)(4))\nS: * 2 EXPUNGE\nS: a OK …\n\
         C: b THREAD REFERENCES UTF-8 ALL\nS: * THREAD ((1)(2)(3))\nS: b OK …",
    );
    assert_eq!(thread(&mut second, "REFS UTF-8 ALL"), "(1)((2)(3))");
}

/// A chain of replies as deep as the mailbox: no recursion, and the answer is as long as its
/// numbers.
#[test]
fn a_deep_chain() {
    const DEEP: usize = 3000;
    let server = Server::start();
    let mut wire = server.login();
    let mut append = b"a APPEND INBOX".to_vec();
    for n in 1..=DEEP {
        let parent = if n > 1 { format!("References: <{}@x>\r\n", n - 1) } else { String::new() };
        let text = format!("Date: 1 Jan 2024 10:00:00 +0000\r\nMessage-ID: <{n}@x>\r\n{parent}\r\n");
        append.extend_from_slice(format!(" {{{}+}}\r\n{text}", text.len()).as_bytes());
    }
    wire.send(&[append.as_slice(), b"\r\n"].concat());
    wire.expect("a OK [APPENDUID …] …");
    wire.run("C: s SELECT INBOX\nS~ s OK …");
    let numbers: Vec<String> = (1..=DEEP).map(|n| n.to_string()).collect();
    let expected = format!("({})", numbers.join(" "));
    assert!(thread(&mut wire, "REFERENCES UTF-8 ALL") == expected);
    assert!(thread(&mut wire, "REFS UTF-8 ALL") == expected);
}

/// REFERENCES as RFC 5256 §3 has it, step by step, without regard to its cost.
#[derive(Default)]
struct Model {
    nodes: Vec<Node>,
    root: Vec<usize>,
}

#[derive(Clone, Default)]
struct Node {
    /// Sequence number, day, whether it is a reply, base subject; a dummy has none.
    message: Option<(u32, u32, bool, String)>,
    parent: Option<usize>,
    children: Vec<usize>,
}

impl Model {
    fn of(messages: &[Written<'_>]) -> Self {
        let mut model = Self::default();
        let mut by_id = HashMap::<String, usize>::new();
        for (seq, (day, id, _, subject)) in (1..).zip(messages) {
            let base = subject.strip_prefix("Re: ").unwrap_or(subject);
            let message = Some((seq, *day, base != *subject, base.to_owned()));
            model.nodes.push(Node { message, ..Node::default() });
            if !id.is_empty() {
                by_id.entry((*id).to_owned()).or_insert(model.nodes.len() - 1);
            }
        }
        for (node, (_, _, references, _)) in messages.iter().enumerate() {
            let mut last = None;
            for id in references.split(' ').filter(|id| !id.is_empty()) {
                let next = *by_id.entry(id.to_owned()).or_insert_with(|| {
                    model.nodes.push(Node::default());
                    model.nodes.len() - 1
                });
                if let Some(last) = last
                    && model.nodes[next].parent.is_none()
                {
                    model.link(next, last);
                }
                last = Some(next);
            }
            if model.nodes[node].parent != last {
                if let Some(parent) = model.nodes[node].parent.take() {
                    model.nodes[parent].children.retain(|child| *child != node);
                }
                if let Some(last) = last {
                    model.link(node, last);
                }
            }
        }
        model.root = (0..model.nodes.len()).filter(|node| model.nodes[*node].parent.is_none()).collect();
        model
    }

    fn link(&mut self, child: usize, parent: usize) {
        let mut above = Some(parent);
        while let Some(node) = above {
            if node == child {
                return;
            }
            above = self.nodes[node].parent;
        }
        self.nodes[child].parent = Some(parent);
        self.nodes[parent].children.push(child);
    }

    /// Step 3: the children of this node without dummies.
    fn pruned(&mut self, node: usize) -> Vec<usize> {
        let mut all = Vec::new();
        for child in self.nodes[node].children.clone() {
            let below = self.pruned(child);
            match self.nodes[child].message {
                Some(_) => all.push(child),
                None => all.extend(below),
            }
        }
        self.nodes[node].children.clone_from(&all);
        all
    }

    fn prune(&mut self) {
        for node in std::mem::take(&mut self.root) {
            let below = self.pruned(node);
            match (&self.nodes[node].message, below.as_slice()) {
                (None, []) => {}
                (None, [one]) => self.root.push(*one),
                _ => self.root.push(node),
            }
        }
    }

    /// Day and number; a dummy has those of its first child.
    fn key(&self, node: usize) -> (u32, u32) {
        match &self.nodes[node].message {
            Some((seq, day, ..)) => (*day, *seq),
            None => self.nodes[node].children.iter().map(|child| self.key(*child)).min().unwrap_or_default(),
        }
    }

    fn sort(&mut self, mut nodes: Vec<usize>) -> Vec<usize> {
        for node in &nodes {
            let children = std::mem::take(&mut self.nodes[*node].children);
            self.nodes[*node].children = self.sort(children);
        }
        nodes.sort_by_key(|node| self.key(*node));
        nodes
    }

    fn subject(&self, node: usize) -> String {
        match &self.nodes[node].message {
            Some((.., subject)) => subject.clone(),
            None => self.subject(self.nodes[node].children[0]),
        }
    }

    fn is_reply(&self, node: usize) -> bool {
        self.nodes[node].message.as_ref().is_some_and(|(.., is_reply, _)| *is_reply)
    }

    /// Step 5.
    fn merge(&mut self) {
        let is_dummy = |model: &Self, node: usize| model.nodes[node].message.is_none();
        let mut table = HashMap::<String, usize>::new();
        let root = self.root.clone();
        let subjects: Vec<String> = root.iter().map(|node| self.subject(*node)).collect();
        for (node, subject) in root.iter().zip(&subjects).filter(|(_, subject)| !subject.is_empty()) {
            let first = *table.entry(subject.clone()).or_insert(*node);
            if !is_dummy(self, first)
                && (is_dummy(self, *node) || (self.is_reply(first) && !self.is_reply(*node)))
            {
                table.insert(subject.clone(), *node);
            }
        }
        for (node, subject) in root.iter().zip(&subjects).filter(|(_, subject)| !subject.is_empty()) {
            let first = table[subject];
            if first == *node || !self.root.contains(node) {
                continue;
            }
            self.root.retain(|other| other != node);
            if is_dummy(self, first) && is_dummy(self, *node) {
                let children = std::mem::take(&mut self.nodes[*node].children);
                self.nodes[first].children.extend(children);
            } else if is_dummy(self, first) || (self.is_reply(*node) && !self.is_reply(first)) {
                self.nodes[first].children.push(*node);
            } else {
                self.root.retain(|other| *other != first);
                self.nodes.push(Node { children: vec![*node, first], ..Node::default() });
                self.root.push(self.nodes.len() - 1);
                table.insert(subject.clone(), self.nodes.len() - 1);
            }
        }
    }

    fn references(messages: &[Written<'_>]) -> String {
        let mut model = Self::of(messages);
        model.prune();
        model.root = model.sort(model.root.clone());
        model.merge();
        model.root = model.sort(model.root.clone());
        model.root.iter().map(|node| format!("({})", model.print(*node))).collect()
    }

    /// REFS, for messages that arrive in the order of their numbers.
    fn refs(messages: &[Written<'_>]) -> String {
        let mut model = Self::of(messages);
        model.prune();
        model.root = model.sort(model.root.clone());
        let mut root = model.root.clone();
        root.sort_by_key(|node| model.latest(*node));
        root.iter().map(|node| format!("({})", model.print(*node))).collect()
    }

    fn latest(&self, node: usize) -> u32 {
        let own = self.nodes[node].message.as_ref().map_or(0, |(seq, ..)| *seq);
        self.nodes[node].children.iter().map(|child| self.latest(*child)).fold(own, u32::max)
    }

    fn print(&self, node: usize) -> String {
        let number = self.nodes[node].message.as_ref().map(|(seq, ..)| seq.to_string());
        let children: Vec<String> =
            self.nodes[node].children.iter().map(|child| self.print(*child)).collect();
        let below = match children.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            several => several.iter().map(|child| format!("({child})")).collect(),
        };
        [number, Some(below).filter(|below| !below.is_empty())]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Random messages that refer to each other at random, loops and missing parents included.
#[test]
fn as_the_steps_of_the_rfc_say() {
    let mut state = 11u64;
    let mut below = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    for world in 0..60 {
        let ids: Vec<String> = (0..3 + below(14)).map(|n| format!("i{n}")).collect();
        let mut written = Vec::new();
        for n in 0..2 + below(14) as usize {
            // Mostly an identifier of its own; sometimes one of another message, or none.
            let id = match below(8) {
                0 => String::new(),
                1 => ids[below(ids.len() as u64) as usize].clone(),
                _ => ids.get(n).cloned().unwrap_or_default(),
            };
            let references: Vec<&str> =
                (0..below(4)).map(|_| ids[below(ids.len() as u64) as usize].as_str()).collect();
            let subject = ["", "x", "Re: x", "y", "Re: y", "z"][below(6) as usize];
            written.push((1 + below(9) as u32, id, references.join(" "), subject));
        }
        let messages: Vec<Written<'_>> = written
            .iter()
            .map(|(day, id, references, subject)| (*day, id.as_str(), references.as_str(), *subject))
            .collect();
        let server = Server::start();
        for (n, message) in messages.iter().enumerate() {
            let arrived = format!("INBOX \"01-Jan-2024 10:00:{n:02} +0000\"");
            server.put(&arrived, text_of(message).as_bytes());
        }
        let mut wire = server.select("INBOX");
        let context = format!("world {world}: {messages:#?}");
        // Twice: the second time the threads are remembered. Then all but the first message.
        for threads in ["made", "remembered"] {
            let context = format!("{threads}, {context}");
            assert_eq!(thread(&mut wire, "REFERENCES UTF-8 ALL"), Model::references(&messages), "{context}");
            assert_eq!(thread(&mut wire, "REFS UTF-8 ALL"), Model::refs(&messages), "{context}");
        }
        wire.run("C: s STORE 1 +FLAGS.SILENT \\Deleted\nS: s OK …\nC: e EXPUNGE\nS: * 1 EXPUNGE\nS: e OK …");
        let left = messages.get(1..).unwrap();
        assert_eq!(thread(&mut wire, "REFERENCES UTF-8 ALL"), Model::references(left), "{context}");
        assert_eq!(thread(&mut wire, "REFS UTF-8 ALL"), Model::refs(left), "{context}");
    }
}
