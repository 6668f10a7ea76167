//! Paths as a report shows them. Others read it on other machines, so folders of the measuring
//! machine are left out, and with them the names of its users.

/// Folders at the root that any machine has. Paths in them stay whole.
const OF_ANY_MACHINE: [&str; 10] = ["bin", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr"];

/// Whether a character ends a path, or is before one.
fn is_end(c: char) -> bool {
    c.is_whitespace() || "\"'`<>()|,;:".contains(c)
}

/// Shortens each absolute path in a text to `…/` and its last name. Paths in URLs stay.
pub fn without_folders(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (ahead, path) = rest.split_at(at);
        shown.push_str(ahead);
        let (path, after) = path.split_at(path.find(is_end).unwrap_or(path.len()));
        let begins = shown.chars().next_back().is_none_or(|c| is_end(c) || c == '=');
        match last_name(path).filter(|_| begins) {
            Some(name) => shown.extend(["…/", name]),
            None => shown.push_str(path),
        }
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// The last name of an absolute path in a folder of this machine.
fn last_name(path: &str) -> Option<&str> {
    let mut names = path.strip_prefix('/')?.split('/');
    let first = names.next().filter(|name| !name.is_empty())?;
    let last = names.rfind(|name| !name.is_empty())?;
    (!OF_ANY_MACHINE.contains(&first)).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_this_machine_has_its_last_name_alone() {
        for (text, expected) in [
            ("/home/ana/src/posthaste serve --data /tmp/study-7/a-0/data", "…/posthaste serve --data …/data"),
            ("old=/srv/1/posthaste new=/srv/2/posthaste", "old=…/posthaste new=…/posthaste"),
            ("ssl_cert = </tmp/x/cert.pem\nhome=/tmp/x/mail/%u", "ssl_cert = <…/cert.pem\nhome=…/%u"),
            ("cmd=\"/tmp/x/bin/imapd -C /tmp/x/imapd.conf\"", "cmd=\"…/imapd -C …/imapd.conf\""),
            ("LD_LIBRARY_PATH=/tmp/a/lib:/tmp/b/lib", "LD_LIBRARY_PATH=…/lib:…/lib"),
            ("lowerdir=/tmp/x/usr/:/usr /usr", "lowerdir=…/usr:/usr /usr"),
            ("did not start: see /tmp/x/dovecot.out", "did not start: see …/dovecot.out"),
        ] {
            assert_eq!(without_folders(text), expected, "{text}");
        }
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "",
            "/",
            "control group /sys/fs/cgroup/posthaste-7",
            "/usr/lib/dovecot/imap",
            "mine=imap://mail/x,lmtp://127.0.0.1:24,pid=7",
            "sdbox:~/sdbox, crates/load/report, 12 MB/s, 3 / 4, GET /cost",
        ] {
            assert_eq!(without_folders(text), text);
        }
    }
}
