//! Passwords that are guessed: from many networks, for many names, and many at once. Meanwhile
//! somebody logs in for the first time.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use posthaste_testkit::LineClient;

use super::connections::USER_AT;
use super::outcome::{Outcome, text};
use crate::Scale;
use crate::stage::{BYSTANDER, COLLECTOR, PASSWORD, Stage};

/// How long passwords are tried at full scale.
const LOGINS_FOR: Duration = Duration::from_secs(30);
/// Wrong passwords at once from one address, which is refused after 64 failures.
const AT_ONCE: usize = 96;

/// An IMAP client at this address whose greeting was read.
fn client_at(stage: &Stage, address: Ipv4Addr) -> Result<LineClient, String> {
    let mut client = LineClient::over(stage.socket_from("imap", address).map_err(text)?).map_err(text)?;
    client.line().map_err(text)?;
    Ok(client)
}

/// Tries passwords, each from another address of a network. The result is the number of tries.
fn guesses(stage: &Stage, network: usize, tries: usize, is_over: impl Fn() -> bool) -> Result<usize, String> {
    let mut tried = 0;
    while tried < tries && !is_over() {
        // A second failure of an address would be answered later than the first.
        let mut client = client_at(stage, Ipv4Addr::new(198, 19, network as u8, 1 + tried as u8))?;
        let name = match (network + tried) % 50 {
            0 => BYSTANDER.to_owned(),
            n => format!("user{n}@example.org"),
        };
        tried += 1;
        let lines = client.imap(&format!("LOGIN {name} wrong{tried}")).map_err(text)?;
        if lines.iter().any(|line| line.starts_with("t OK")) {
            return Err(format!("{name} got in"));
        }
    }
    Ok(tried)
}

fn is_throttled(answer: &str) -> bool {
    answer.contains("too many failed logins")
}

/// Tries more passwords at once than one address may. After that the right password of an account
/// that never logged in from there is refused, too.
fn guesses_at_once(stage: &Stage) -> Outcome {
    let address = Ipv4Addr::new(198, 19, 255, 1);
    let mut open = Vec::new();
    for n in 0..AT_ONCE {
        let mut client = client_at(stage, address)?;
        client.send(format!("t LOGIN user{n}@example.org wrong\r\n").as_bytes()).map_err(text)?;
        open.push(client);
    }
    let mut throttled = 0;
    for client in &mut open {
        throttled += usize::from(is_throttled(&client.line().map_err(text)?));
    }
    drop(open);
    let lines =
        client_at(stage, address)?.imap(&format!("LOGIN {COLLECTOR} \"{PASSWORD}\"")).map_err(text)?;
    match lines.last().filter(|line| is_throttled(line)) {
        Some(_) => Ok(format!("; {throttled} of {AT_ONCE} at once without a check")),
        None => Err(format!("after {AT_ONCE} failures of its address {COLLECTOR} was answered {lines:?}")),
    }
}

/// Networks whose logins wait at once. Each has less than a quarter of the queue, its share.
const WAITING_NETWORKS: usize = 4;
/// Wrong passwords that wait at once at full scale, for each that is hashed at a time. At 20 ms
/// for each, the last one waits 10 s.
const WAITING_EACH: usize = 500;
/// How long a first login may take while they wait. It waits for one round: a hash for each
/// network of the attackers, which takes half a second where one is hashed at a time. Behind all
/// of those that wait it would take 10 s.
const FIRST_LOGIN_MAX: Duration = Duration::from_secs(4);
/// Where somebody logs in for the first time: in no network of the attackers.
const NEWCOMER_AT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);

/// Passwords that are hashed at a time: one fewer than there are processors, and eight at most.
fn hashed_at_once() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get() - 1).clamp(1, 8)
}

/// Logins that wait at once, for which this process has descriptors.
fn waiting(stage: &Stage) -> usize {
    let possible = usize::try_from(stage.descriptors / 2).unwrap_or(usize::MAX);
    stage.of(20, WAITING_EACH * hashed_at_once()).min(possible)
}

/// A hash takes 19 MiB, and a connection that waits for one takes no more than an idle one.
pub fn memory_mib(stage: &Stage) -> u64 {
    64 + 20 * hashed_at_once() as u64 + waiting(stage) as u64 / 16
}

/// Sends wrong passwords that wait for their hash at once. Their addresses fail a few times each,
/// so none of them is throttled.
fn wait_at_once(stage: &Stage) -> Result<Vec<LineClient>, String> {
    let mut open = Vec::new();
    for n in 0..waiting(stage) {
        let (network, host) = (200 + n % WAITING_NETWORKS, 1 + n / WAITING_NETWORKS % 250);
        let mut client = client_at(stage, Ipv4Addr::new(198, 19, network as u8, host as u8))?;
        client.send(format!("t LOGIN waiting{n}@example.org wrong\r\n").as_bytes()).map_err(text)?;
        open.push(client);
    }
    Ok(open)
}

/// The first login of an account: the server remembers no password of it, so it takes a hash. How
/// long it took decides at full scale alone.
fn first_login(stage: &Stage, name: &str) -> Result<Duration, String> {
    let began = Instant::now();
    let session = stage.login_from(NEWCOMER_AT, name);
    let took = began.elapsed();
    session.map_err(|error| format!("a first login: {error}"))?;
    match stage.scale == Scale::Full && took > FIRST_LOGIN_MAX {
        true => Err(format!("a first login took {took:?}, over {FIRST_LOGIN_MAX:?}")),
        false => Ok(took),
    }
}

/// Many logins wait, and somebody logs in for the first time. Then users are served.
fn others_meanwhile(stage: &Stage, newcomer: &str) -> Outcome {
    let mut open = wait_at_once(stage)?;
    let took = first_login(stage, newcomer)?;
    stage.hold()?;
    // A user at an address that never failed.
    stage.login_from(USER_AT, BYSTANDER).map_err(|error| format!("from elsewhere {error}"))?;
    for client in &mut open {
        let line = client.line().map_err(text)?;
        if !line.starts_with("t NO") {
            return Err(format!("a wrong password was answered {line:?}"));
        }
    }
    Ok(format!("; a first login took {} ms while {} waited", took.as_millis(), open.len()))
}

pub fn logins(stage: &Stage) -> Outcome {
    let newcomer = &stage.newcomer().map_err(text)?;
    let (clients, each) = (stage.of(3, 20), stage.of(4, 100));
    // Failures for an account are answered later and later: further tries are left out.
    let began = Instant::now();
    let is_over = &|| began.elapsed() > LOGINS_FOR;
    let panicked = |_| "an attacker panicked".to_owned();
    let (tried, at_once, others) = std::thread::scope(|scope| {
        let attack = |network| scope.spawn(move || guesses(stage, network, each, is_over));
        let attackers: Vec<_> = (0..clients).map(attack).collect();
        // The limit of an address is the same at each scale, and its answers take some 20 s.
        let at_once = (stage.scale == Scale::Full).then(|| scope.spawn(move || guesses_at_once(stage)));
        let others = others_meanwhile(stage, newcomer);
        let tried: Result<usize, String> =
            attackers.into_iter().map(|attacker| attacker.join().map_err(panicked)?).sum();
        let at_once: Outcome = at_once.map_or(Ok(String::new()), |attack| attack.join().map_err(panicked)?);
        (tried, at_once, others)
    });
    let others = others?;
    Ok(format!("{} refused{}{others}", tried?, at_once?))
}
