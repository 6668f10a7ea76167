//! Passwords from a person, a pipe or the system's randomness.

use std::io::{BufRead, IsTerminal};

use posthaste_mail_model::Secret;

use crate::failure::{Failure, Result};

/// Letters and digits that cannot be confused when read aloud or copied by hand.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// 20 characters of 5 bits: 100 bits, past any guessing; more would only be harder to type.
const GENERATED_LEN: usize = 20;

/// A password for the account `name`: the first line of standard input, or typed twice at the
/// terminal. It must have `least` characters.
pub fn read(name: &str, from_stdin: bool, least: usize) -> Result<Secret<String>> {
    if from_stdin {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line)?;
        let password = line.trim_end_matches(['\r', '\n']).to_owned();
        return checked(
            password,
            least,
            "the first line of standard input is empty; it must hold the password",
        );
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "there is no terminal to enter the password; pipe it in with --password-stdin".into(),
        ));
    }
    let first = rpassword::prompt_password(format!("Password for {name}: "))?;
    let again = rpassword::prompt_password("Once more: ")?;
    if first != again {
        return Err(Failure::Usage("the two passwords differ; nothing was changed".into()));
    }
    checked(first, least, "the password must not be empty")
}

fn checked(password: String, least: usize, complaint: &str) -> Result<Secret<String>> {
    match password.chars().count() {
        0 => Err(Failure::Usage(complaint.into())),
        count if count < least => Err(Failure::Usage(format!(
            "the password is too short: it has {count} characters, and `login.password_length_min` requires \
             {least}; choose a longer one. Nothing was changed"
        ))),
        _ => Ok(Secret::new(password)),
    }
}

/// A password nobody chose.
pub fn generate() -> Result<Secret<String>> {
    let mut random = [0u8; GENERATED_LEN];
    getrandom::fill(&mut random).map_err(|e| {
        Failure::Terminal(std::io::Error::other(format!("no randomness from the system: {e}")))
    })?;
    let text = random.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)]));
    Ok(Secret::new(text.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_passwords_differ_and_can_be_typed() {
        let (a, b) = (generate().unwrap(), generate().unwrap());
        assert_ne!(a.expose(), b.expose());
        assert_eq!(a.expose().len(), GENERATED_LEN);
        assert!(a.expose().bytes().all(|c| ALPHABET.contains(&c)));
    }
}
