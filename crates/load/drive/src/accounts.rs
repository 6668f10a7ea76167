//! The accounts a run uses: patterns like `user{0..1199}@example.org`, and their passwords.

use std::path::Path;

/// Names by number, without keeping them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accounts {
    before: String,
    after: String,
    first: u32,
    count: u32,
    /// Width of the numbers when written with leading zeros.
    width: usize,
    /// Names have numbers, also a single one.
    numbered: bool,
    password: Password,
}

#[derive(Clone, PartialEq, Eq)]
enum Password {
    /// The same for all: `{}` is replaced by the account's name, `{n}` by its number.
    Pattern(String),
    /// One per line, in order of the accounts, or `name:password` lines.
    List(Vec<String>),
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

impl Accounts {
    /// Reads `prefix{from..to}suffix`; a name without braces is one account.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let password = Password::Pattern(String::new());
        let Some((before, rest)) = pattern.split_once('{') else {
            let before = pattern.to_owned();
            return Ok(Self {
                before,
                after: String::new(),
                first: 0,
                count: 1,
                width: 0,
                numbered: false,
                password,
            });
        };
        let wrong = || {
            format!(
                "`{pattern}` is not a pattern of accounts; write for instance user{{0..1199}}@example.org"
            )
        };
        let (range, after) = rest.split_once('}').ok_or_else(wrong)?;
        let (from, to) = range.split_once("..").ok_or_else(wrong)?;
        let (first, last): (u32, u32) =
            (from.parse().map_err(|_| wrong())?, to.trim_start_matches('=').parse().map_err(|_| wrong())?);
        if last < first || last - first >= 8_000_000 {
            return Err(wrong());
        }
        Ok(Self {
            before: before.to_owned(),
            after: after.to_owned(),
            first,
            count: last - first + 1,
            width: if from.starts_with('0') && from.len() > 1 { from.len() } else { 0 },
            numbered: true,
            password,
        })
    }

    /// A part of them: `count` accounts from account `from` on, or fewer if the list ends.
    #[must_use]
    pub fn part(&self, from: u32, count: u32) -> Self {
        let from = from.min(self.count);
        let count = count.min(self.count - from);
        let password = match &self.password {
            Password::Pattern(pattern) => Password::Pattern(pattern.clone()),
            Password::List(list) => {
                Password::List(list.iter().skip(from as usize).take(count as usize).cloned().collect())
            }
        };
        Self { first: self.first + from, count, password, ..self.clone() }
    }

    /// One password for all, `{}` in it replaced by the account's name and `{n}` by its number.
    pub fn with_password(mut self, pattern: &str) -> Self {
        self.password = Password::Pattern(pattern.to_owned());
        self
    }

    /// Passwords from a file: a single line is a pattern as above; more lines are `name:password`,
    /// or one password for each account in order.
    pub fn with_password_file(mut self, file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        self.password = match lines.as_slice() {
            [] => {
                let why = "the file has no password: write one for all accounts, or lines NAME:PASSWORD";
                return Err(format!("{}: {why}", file.display()));
            }
            [one] => Password::Pattern((*one).to_owned()),
            many => {
                let by_name: std::collections::HashMap<&str, &str> =
                    many.iter().filter_map(|l| l.split_once(':')).collect();
                let named = by_name.contains_key(self.name(0).as_str());
                let take = |n: u32| match (named, by_name.get(self.name(n).as_str()), many.get(n as usize)) {
                    (true, Some(password), _) => Ok((*password).to_owned()),
                    (false, _, Some(line)) => Ok((*line).to_owned()),
                    _ => Err(format!(
                        "{}: no password for {1}: add the line {1}:PASSWORD",
                        file.display(),
                        self.name(n)
                    )),
                };
                Password::List((0..self.count).map(take).collect::<Result<_, _>>()?)
            }
        };
        Ok(self)
    }

    /// The number of accounts.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The name of account `n` (from 0).
    pub fn name(&self, n: u32) -> String {
        if !self.numbered {
            return self.before.clone();
        }
        let number = self.first + n % self.count.max(1);
        format!("{}{number:0width$}{}", self.before, self.after, width = self.width)
    }

    /// The account's mail address: the name, with a domain if it has none.
    pub fn address(&self, n: u32) -> String {
        let name = self.name(n);
        if name.contains('@') { name } else { format!("{name}@localhost") }
    }

    /// The password of account `n`.
    pub fn password(&self, n: u32) -> String {
        match &self.password {
            Password::Pattern(p) => {
                let number = self.first + n % self.count.max(1);
                p.replace("{}", &self.name(n)).replace("{n}", &number.to_string())
            }
            Password::List(list) => {
                // The list has a password for each account: see `with_password_file`.
                let password = list.get((n % self.count.max(1)) as usize);
                debug_assert!(password.is_some(), "account {n} has no password");
                password.cloned().unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let accounts = Accounts::parse("user{0..1199}@example.org").unwrap().with_password("pw{n}");
        assert_eq!(accounts.count(), 1200);
        assert_eq!(accounts.name(1199), "user1199@example.org");
        assert_eq!(accounts.password(3), "pw3");
        assert_eq!(Accounts::parse("u{001..010}").unwrap().name(1), "u002");
        let part = accounts.part(1190, 20);
        assert_eq!(
            (part.count(), part.name(0), part.password(9)),
            (10, "user1190@example.org".into(), "pw1199".into())
        );
        assert_eq!(Accounts::parse("u{0..3}").unwrap().part(0, 1).name(0), "u0");
        assert_eq!(Accounts::parse("ana").unwrap().address(0), "ana@localhost");
        for wrong in ["a{1..", "a{5..2}", "a{x..y}", "a{1}"] {
            assert!(Accounts::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn password_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "u1:beta\nu0:alpha\n").unwrap();
        let accounts = Accounts::parse("u{0..1}").unwrap().with_password_file(file.path()).unwrap();
        assert_eq!((accounts.password(0), accounts.password(1)), ("alpha".into(), "beta".into()));
        // Numbers over the count name the same accounts again, with their passwords.
        assert_eq!((accounts.name(3), accounts.password(3)), ("u1".into(), "beta".into()));
        std::fs::write(file.path(), "secret\n").unwrap();
        let accounts = Accounts::parse("u{0..1}").unwrap().with_password_file(file.path()).unwrap();
        assert_eq!(accounts.password(1), "secret");
    }
}
