//! Values of flags that have a grammar of their own.

use std::str::FromStr;

use braid_shared::model::Span;

use crate::schedule::Schedule;
use crate::workload::Share;

/// How fast events are offered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rate {
    /// Not at all.
    Nothing,
    /// A closed loop: the next request leaves when the last one is answered.
    Max,
    /// An open loop.
    At(Schedule),
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        match text {
            "max" => Ok(Rate::Max),
            "0" => Ok(Rate::Nothing),
            _ => text.parse().map(Rate::At),
        }
    }
}

/// How many reads there are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reads {
    /// A share of all requests, on the connections of the writes.
    Share(Share),
    /// A rate of their own, on connections of their own.
    Rate(Rate),
}

impl FromStr for Reads {
    type Err = String;

    fn from_str(text: &str) -> Result<Reads, String> {
        let Some(percent) = text.strip_suffix('%') else { return text.parse().map(Reads::Rate) };
        match percent.parse::<f64>() {
            Ok(percent) if (0.0..100.0).contains(&percent) => Ok(Reads::Share(Share::new(percent / 100.0))),
            _ => Err("a share of reads is 0% to below 100%; for reads alone give --rate 0 and a rate of reads".into()),
        }
    }
}

/// A share, such as `5%` or `0.05`.
pub(super) fn share(text: &str) -> Result<Share, String> {
    let part = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match part {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(Share::new(part)),
        _ => Err(format!("`{text}` is no share: 0% to 100%, or 0 to 1")),
    }
}

/// A share of the events, and how far back in time they lie at most: `5%:1h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareBack {
    pub(crate) share: Share,
    pub(crate) by: Option<Span>,
}

impl FromStr for ShareBack {
    type Err = String;

    fn from_str(text: &str) -> Result<ShareBack, String> {
        let (part, span) = text.split_once(':').map_or((text, None), |(part, span)| (part, Some(span)));
        let by = span.map(|span| span.parse().map_err(|error| format!("`{span}`: {error}"))).transpose()?;
        Ok(ShareBack { share: share(part)?, by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_or_a_part() {
        assert_eq!(share("5%"), share("0.05"));
        assert_eq!(share("100%"), Ok(Share::new(1.0)));
        for text in ["101%", "-1%", "x", "", "NaN", "2"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lateness_is_a_share_and_a_span() {
        let late: ShareBack = "5%:1h".parse().unwrap();
        assert_eq!((Ok(late.share), late.by), (share("5%"), Some(Span::HOUR)));
        assert_eq!("5%".parse::<ShareBack>().unwrap().by, None);
        assert!("5%:1mo".parse::<ShareBack>().is_err());
    }

    #[test]
    fn reads_are_a_share_or_a_rate() {
        assert_eq!("10%".parse(), Ok(Reads::Share(Share::new(0.1))));
        assert_eq!("max".parse(), Ok(Reads::Rate(Rate::Max)));
        assert!(matches!("200".parse(), Ok(Reads::Rate(Rate::At(_)))));
        assert!("100%".parse::<Reads>().unwrap_err().contains("--rate 0"));
    }
}
