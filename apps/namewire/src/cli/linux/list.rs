//! Lists on the command line, separated by commas.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::cli::failure::{Failure, Outcome};
use namewire_daemon::placement;

/// Several values, such as `1,2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T: FromStr<Err: fmt::Display>> FromStr for List<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = |part: &str| part.parse().map_err(|error| format!("`{part}`: {error}"));
        text.split(',').map(|part| value(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl<T: fmt::Display> fmt::Display for List<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.0.iter().map(T::to_string).collect();
        formatter.write_str(&values.join(","))
    }
}

/// Parses a list of numbers in this range.
pub fn numbers<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<List<T>, String> + Clone + Send + Sync + 'static
where
    T: FromStr<Err: fmt::Display> + fmt::Display + PartialOrd + Clone + Send + Sync + 'static,
{
    move |text| {
        let list: List<T> = text.parse()?;
        match list.0.iter().find(|number| !range.contains(number)) {
            Some(number) => {
                Err(format!("{number} is not from {} to {}", range.start(), range.end()))
            }
            None => Ok(list),
        }
    }
}

/// The first repeated value.
pub fn repeated<T: PartialEq>(values: &[T]) -> Option<&T> {
    let mut numbered = values.iter().enumerate();
    numbered.find_map(|(number, value)| values[..number].contains(value).then_some(value))
}

/// The processors of `--cpus`, all of which must be usable on this machine.
pub fn processors(list: &List<usize>) -> Outcome<Vec<usize>> {
    match placement::unusable(&list.0) {
        Some(reason) => Err(Failure::Usage(format!("--cpus: {reason}"))),
        None => Ok(list.0.clone()),
    }
}

/// As [`processors`], with exactly `COUNT` entries.
pub fn processors_of<const COUNT: usize>(list: &List<usize>) -> Outcome<[usize; COUNT]> {
    processors(list)?.try_into().map_err(|given: Vec<usize>| {
        Failure::Usage(format!("--cpus: {COUNT} processors are needed, not {}", given.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_lists_round_trip() {
        let list: List<usize> = "1, 2,30".parse().unwrap();
        assert_eq!((list.0.as_slice(), list.to_string().as_str()), (&[1, 2, 30][..], "1,2,30"));
        assert_eq!("0.5,2".parse::<List<f64>>().unwrap().to_string(), "0.5,2");
        for wrong in ["", "1,", "1 2", "a"] {
            assert!(wrong.parse::<List<usize>>().is_err(), "{wrong}");
        }
        let reported = numbers(1..=64_usize)("2,0").unwrap_err();
        assert_eq!(reported, "0 is not from 1 to 64");
    }

    #[test]
    fn repeated_values_are_found() {
        assert_eq!(repeated(&[1, 2, 3, 2, 1]), Some(&2));
        assert_eq!(repeated(&[1, 2, 3]), None);
    }

    #[test]
    fn missing_processors_are_reported() {
        let reported = processors(&List(vec![4000])).unwrap_err().to_string();
        assert!(reported.starts_with("--cpus: processor 4000 cannot be used here"), "{reported}");
        let reported = processors_of::<2>(&List(Vec::new())).unwrap_err().to_string();
        assert_eq!(reported, "--cpus: 2 processors are needed, not 0");
    }
}
