//! Addresses and URLs without the passwords in them, for what people read: errors, logs and the
//! configuration that is shown.
//!
//! Where the end of a password is not clear, more than the password is masked. A user alone is no
//! secret, nor is a path.

/// What is shown in place of a secret.
const MASK: &str = "…";
/// What precedes an address without being the user of a login.
const NO_USERS: [&str; 2] = ["mailto:", "unix:"];
/// What a value in a text is quoted with. In a word the last one is an apostrophe.
const QUOTES: [char; 3] = ['"', '`', '\''];
/// What precedes a quoted value without a blank (TOML).
const BEFORE_QUOTES: [char; 4] = ['=', '[', ',', '('];

/// An address or a URL without its password (`scheme://user:password@host`, `user:password@host`),
/// and without the values of its query.
pub fn masked(value: &str) -> String {
    let is_url = value.contains("://");
    let (scheme, rest) = value.split_at(scheme_len(value));
    // RFC 3986 §3.4, §3.5
    let end = rest.find(['?', '#']).filter(|_| is_url).unwrap_or(rest.len());
    let (place, query) = rest.split_at(end);
    // RFC 3986 §3.2.1: the login ends at `@`. If that is in the query, the password has a `?` or a
    // `#` that is not percent-encoded.
    let at = place.rfind('@').or_else(|| query.contains('@').then_some(place.len()));
    let (login, host) = place.split_at(at.unwrap_or(0));
    let place = match login.split_once(':') {
        // In a path, and after the words of a text, a colon does not begin a password.
        Some((user, password)) if is_url || !(user.starts_with(['/', '.']) || password.starts_with(' ')) => {
            format!("{user}:{MASK}{host}")
        }
        _ => place.to_owned(),
    };
    format!("{scheme}{place}{}", masked_query(query))
}

/// A text in which each address and URL is masked as by [`masked`].
pub fn masked_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(piece_len(rest));
        let value = piece.trim_matches(QUOTES);
        let start = piece.len() - piece.trim_start_matches(QUOTES).len();
        out.push_str(&piece[..start]);
        out.push_str(&masked(value));
        out.push_str(&piece[start + value.len()..]);
        rest = after;
    }
    out
}

/// The length of the scheme with what follows it.
fn scheme_len(value: &str) -> usize {
    let has =
        |prefix: &&&str| value.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix));
    match value.find("://") {
        // A colon before it begins a password.
        Some(at) if !value[..at].contains(':') => at + "://".len(),
        _ => NO_USERS.iter().find(has).map_or(0, |prefix| prefix.len()),
    }
}

/// A query or a fragment, with its first character.
fn masked_query(query: &str) -> String {
    let Some(sign) = query.chars().next() else { return String::new() };
    let pairs = &query[sign.len_utf8()..];
    if pairs.contains('@') {
        return format!("{sign}{MASK}");
    }
    let masked = pairs.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={MASK}"),
        None if pair.is_empty() => String::new(),
        None => MASK.to_owned(),
    });
    format!("{sign}{}", masked.collect::<Vec<_>>().join("&"))
}

/// The length of the first part of a text: blanks, a quoted value, or a word.
fn piece_len(text: &str) -> usize {
    match text.chars().next() {
        Some(quote) if QUOTES.contains(&quote) => quoted_len(text, quote),
        Some(blank) if blank.is_whitespace() => blank.len_utf8(),
        _ => word_len(text),
    }
}

/// The length of a word. A blank or a quoted value ends it.
fn word_len(text: &str) -> usize {
    let mut before = None;
    for (at, c) in text.char_indices() {
        let begins_value = c != '\'' || before.is_some_and(|before| BEFORE_QUOTES.contains(&before));
        if c.is_whitespace() || (QUOTES.contains(&c) && begins_value) {
            return at;
        }
        before = Some(c);
    }
    text.len()
}

/// The length of a quoted value with its quotes. One without an end takes the rest of its line.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == '\n' {
            return at;
        }
        if c == quote && !is_escaped {
            return at + quote.len_utf8();
        }
        // As `{:?}` and TOML escape a quotation mark.
        is_escaped = quote == '"' && c == '\\' && !is_escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_queries_are_masked() {
        for (value, shown) in [
            ("cassandra://u:p@ss@h,i:9/mail?tls=yes&x", "cassandra://u:…@h,i:9/mail?tls=…&…"),
            ("http://u:p@127.0.0.1:11333", "http://u:…@127.0.0.1:11333"),
            ("--to=imap://u:p@two/", "--to=imap://u:…@two/"),
            ("https://u:p/q@h/x", "https://u:…@h/x"),
            ("https://u:p?q@h/x?a=b", "https://u:…?…"),
            ("https://h/x?secret=a@b", "https://h/x?…"),
            ("https://h/x#token=a", "https://h/x#token=…"),
            ("user:p@host:25", "user:…@host:25"),
            ("DOMAIN/user:p@host:25", "DOMAIN/user:…@host:25"),
            ("u:p://q@host", "u:…@host"),
            (":p@host", ":…@host"),
            ("mailto:a:p@host", "mailto:a:…@host"),
        ] {
            assert_eq!(masked(value), shown);
            assert_eq!(masked(shown), shown);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for value in [
            "",
            "ana@example.org",
            "imap://ana;AUTH=*@two.example.org:143/Team",
            "https://id.example/introspect",
            "cassandra://[::1]:9042/mail",
            "[::1]:25",
            "mailto:postmaster@example.org",
            "unix:/run/rspamd@1.sock",
            "/mail/ana:b@c/cur/1:2,S",
            "Help: ana@example.org",
            "what?now=1",
        ] {
            assert_eq!(masked(value), value);
        }
    }

    #[test]
    fn texts_are_masked_value_by_value() {
        for (text, shown) in [
            ("`relay.x`: \"u:p \\\" q@h:25\" is not a host", "`relay.x`: \"u:…@h:25\" is not a host"),
            ("`https://h/?a=b` is not a URL; see ana@x", "`https://h/?a=…` is not a URL; see ana@x"),
            ("ask: `a`:b@c  \"\" \"x", "ask: `a`:…@c  \"\" \"x"),
            ("1 | a = \"u:p q@h\n  | ^ b@c", "1 | a = \"u:…@h\n  | ^ b@c"),
            ("a = 'u:p q@h' b='u:p q@h'", "a = 'u:…@h' b='u:…@h'"),
            ("the server's ana@x", "the server's ana@x"),
        ] {
            assert_eq!(masked_text(text), shown);
        }
    }
}
