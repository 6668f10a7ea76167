//! APPEND of one message, and mail that comes by it: into INBOX, in a session of the recipient. For
//! servers without a way in for mail.

use posthaste_imap_client::command::quoted;
use posthaste_imap_client::{Client, Completion, Handler};

use super::failure::Failure;
use super::options::RunOptions;
use crate::target::Target;

/// The longest literal that is sent at once where the server has LITERAL- (RFC 7888 §5).
const LITERAL_MINUS_MAX: usize = 4096;

/// Appends a message to a recipient's INBOX. Bytes in and out.
pub async fn append_as(
    options: &RunOptions,
    at: &Target,
    account: u32,
    mail: &[u8],
    source: u32,
) -> Result<(u64, u64), Failure> {
    let mut client = Client::connect(&options.dialer, &at.endpoint, source).await?;
    client.login(&options.accounts.name(account), &options.accounts.password(account)).await?;
    let done = append(&mut client, "INBOX", mail, &mut ()).await?;
    if !done.is_ok() {
        return Err(Failure::Refused { command: "APPEND".into(), text: done.text });
    }
    let bytes = client.bytes();
    client.logout().await?;
    Ok(bytes)
}

/// APPEND with the literal sent at once where the server allows (RFC 7888), otherwise when the
/// server requests it.
pub async fn append<H: Handler>(
    client: &mut Client,
    mailbox: &str,
    mail: &[u8],
    handler: &mut H,
) -> Result<Completion, Failure> {
    let has = |word| client.capabilities().has(word);
    let short = mail.len() <= LITERAL_MINUS_MAX && (has("LITERAL-") || has("IMAP4rev2"));
    let at_once = has("LITERAL+") || short;
    let plus = if at_once { "+" } else { "" };
    let line = format!("APPEND {} {{{}{plus}}}", quoted(mailbox), mail.len());
    client.begin();
    client.piece(line.as_bytes());
    client.note(&line);
    client.end();
    if !at_once {
        client.flush().await?;
        if let Err(refused) = client.continuation(handler).await? {
            return Ok(refused);
        }
    }
    client.piece(mail);
    client.end();
    client.flush().await?;
    Ok(client.answer(handler).await?)
}
