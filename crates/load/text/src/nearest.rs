//! The nearest known word, as a suggestion in errors about unknown words.

/// The known word nearest to `unknown`, if any is near enough to have been meant.
fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (unknown.chars().count() / 2).max(2);
    known
        .into_iter()
        .map(|word| (distance(unknown, word), word))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= limit)
        .map(|(_, word)| word)
}

/// `, did you mean …?`, or which there are.
pub fn suggestion<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(unknown, known.clone()) {
        Some(word) => format!("; the nearest known is `{word}`"),
        None => format!("; known are {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// Edit distance (insert, delete, replace), upper and lower case alike.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_guessed() {
        assert_eq!(nearest("koka-brows", ["koka-browse", "imaptest"]), Some("koka-browse"));
        assert_eq!(nearest("zzzz", ["koka-browse", "imaptest"]), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
