//! The known values of settings, for completion. A test checks that `parse` accepts each of them.

use super::Setting;
use super::setting::{
    CI, ISOLATION, LOG, LOG_FORMAT, OPERATION, PLAN_JSON, PLAN_STATUS, PROVIDER_CACHE,
    SENSITIVE_VALUES, SUBMODULES,
};
use crate::ci::System;
use butler_protocol::spec::Operation;
use butler_source::git::Submodules;

/// Known values of `setting`. Other values can be valid too.
#[must_use]
pub fn choices(setting: &Setting) -> Vec<&'static str> {
    match setting {
        it if *it == OPERATION => Operation::ALL.map(Operation::name).to_vec(),
        it if *it == CI => System::ALL.map(System::id).to_vec(),
        it if *it == LOG => super::parse::LEVELS.to_vec(),
        it if *it == LOG_FORMAT => vec!["text", "json"],
        it if *it == PLAN_STATUS => vec!["succeeded", "planned"],
        it if *it == PLAN_JSON => vec!["clean", "raw"],
        it if *it == SENSITIVE_VALUES => vec!["auto", "literal"],
        it if *it == ISOLATION => vec!["none", "landlock", "user", "auto"],
        it if *it == PROVIDER_CACHE => vec!["off"],
        it if *it == SUBMODULES => Submodules::ALL.map(Submodules::name).to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SETTINGS, parse};
    use super::*;

    #[test]
    fn help_names_each_choice() {
        // The help of the log filter does not name `off`.
        for setting in SETTINGS.iter().filter(|setting| **setting != &LOG) {
            let words: Vec<_> = setting.help.split([' ', ',', ':', ';']).collect();
            for choice in choices(setting) {
                assert!(words.contains(&choice), "`{choice}` in the help of {setting}");
            }
        }
    }

    #[test]
    fn each_choice_is_a_valid_value() {
        let mut known = 0;
        for setting in SETTINGS {
            for text in choices(setting) {
                let read = match setting {
                    it if **it == OPERATION => parse::operation(text).map(drop),
                    it if **it == CI => parse::ci_system(text).map(drop),
                    it if **it == LOG => parse::log_filter(text).map(drop),
                    it if **it == LOG_FORMAT => parse::log_format(text).map(drop),
                    it if **it == PLAN_STATUS => parse::plan_status(text).map(drop),
                    it if **it == PLAN_JSON => parse::plan_json(text).map(drop),
                    it if **it == SENSITIVE_VALUES => parse::sensitive_values(text).map(drop),
                    it if **it == SUBMODULES => parse::submodules(text).map(drop),
                    it if **it == ISOLATION => parse::isolation_level(text).map(drop),
                    // Any other value is a path.
                    it if **it == PROVIDER_CACHE => Ok(()),
                    other => panic!("{other}"),
                };
                assert_eq!(read, Ok(()), "{setting}: {text}");
                known += 1;
            }
        }
        assert!(known > 20, "{known}");
    }
}
