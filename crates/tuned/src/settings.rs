//! A selection from the parameters of a job.

use crate::collectives::TUNABLE;
use crate::components::Components;
use crate::position::RulesError;
use crate::rules::{Rules, algorithm_of};
use crate::selection::{Forced, Selection, Tuning};
use oxmpi_param::{Params, Source};
use oxmpi_plan::table::Parameter;

/// The reason why the parameters give no selection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{origin}: parameter '{parameter}': {text}")]
    Algorithm { origin: String, parameter: &'static str, text: String },
    #[error("{origin}: coll_tuned_dynamic_rules_filename: {file}: {error}")]
    File { origin: String, file: String, error: String },
    #[error(transparent)]
    Rules(#[from] RulesError),
}

/// A selection, and the warnings of its parameters.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub selection: Selection,
    pub components: Components,
    /// Print them once for each job.
    pub warnings: Vec<String>,
}

impl Settings {
    /// The settings of the parameters. `read` reads a rules file.
    pub fn new(
        params: &Params,
        read: impl FnOnce(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Settings, SettingsError> {
        let components = Components::new(params).map_err(|(parameter, text)| {
            SettingsError::Algorithm { origin: origin(params, parameter), parameter, text }
        })?;
        let mut settings = Settings { components, ..Settings::default() };
        let is_on = params.coll_tuned_use_dynamic_rules();
        let file = params.coll_tuned_dynamic_rules_filename();
        for (index, row) in TUNABLE.iter().enumerate() {
            settings.apply_collective(index, params, is_on, !file.is_empty()).map_err(
                |(tuned, text)| SettingsError::Algorithm {
                    origin: tuned.source.to_string(),
                    parameter: tuned.parameter,
                    text,
                },
            )?;
            debug_assert_eq!(row.collective.name(), oxmpi_param::tuned::COLLECTIVES[index]);
        }
        if file.is_empty() {
            return Ok(settings);
        }
        if !is_on {
            settings.warnings.push(without_effect("coll_tuned_dynamic_rules_filename"));
            return Ok(settings);
        }
        let bytes = read(file).map_err(|error| SettingsError::File {
            origin: origin(params, "coll_tuned_dynamic_rules_filename"),
            file: file.to_string(),
            error,
        })?;
        let parsed = Rules::parse(file, &bytes)?;
        settings.warnings.extend(parsed.warnings.iter().map(ToString::to_string));
        settings.selection = settings.selection.with_rules(parsed.rules);
        Ok(settings)
    }

    fn apply_collective<'a>(
        &mut self,
        index: usize,
        params: &'a Params,
        is_on: bool,
        has_rules: bool,
    ) -> Result<(), (oxmpi_param::tuned::Tuned<'a>, String)> {
        let Some(tuned) = params.tuned(index) else { return Ok(()) };
        let algorithm = match algorithm_of(TUNABLE[index].collective, tuned.algorithm) {
            Ok(algorithm) => algorithm,
            Err(text) => return Err((tuned, text)),
        };
        let Some(algorithm) = algorithm else {
            for name in &tuned.said {
                if has_rules && is_on && name.ends_with("_max_requests") {
                    let selection = std::mem::take(&mut self.selection);
                    self.selection = selection.with_max_requests(index, tuned.max_requests);
                } else {
                    self.warnings.push(format!("{name} has no effect without {}", tuned.parameter));
                }
            }
            return Ok(());
        };
        if !is_on {
            self.warnings.push(without_effect(tuned.parameter));
            return Ok(());
        }
        let row = algorithm.algorithm();
        for name in &tuned.said {
            if !row.parameters.iter().any(|parameter| name.ends_with(parameter.name())) {
                let text = format!(
                    "{name} has no effect: the algorithm {} {} does not use it",
                    row.number, row.name
                );
                self.warnings.push(text);
            }
        }
        let is_chain = row.uses(Parameter::ChainFanout);
        let forced = Forced {
            algorithm,
            tuning: Tuning {
                segment_bytes: tuned.segment_bytes,
                fan_out: if is_chain { tuned.chain_fan_out } else { tuned.tree_fan_out },
                max_requests: tuned.max_requests,
            },
            parameter: tuned.parameter.to_string(),
            source: tuned.source.to_string(),
        };
        self.selection = std::mem::take(&mut self.selection).with_forced(forced);
        Ok(())
    }
}

fn without_effect(name: &str) -> String {
    format!("{name} has no effect without coll_tuned_use_dynamic_rules 1")
}

fn origin(params: &Params, name: &str) -> String {
    oxmpi_param::Param::find(name)
        .map_or(&Source::Default, |param| params.source(param))
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CollectiveFacts;
    use oxmpi_plan::Collective;

    fn settings(vars: &[(&str, &str)], file: &str) -> Result<Settings, SettingsError> {
        let vars =
            vars.iter().map(|(name, value)| (format!("OXMPI_MCA_coll_tuned_{name}"), *value));
        let params = Params::from_vars(vars).unwrap();
        Settings::new(&params, |name| match name {
            "there" => Ok(file.as_bytes().to_vec()),
            _ => Err("No such file".into()),
        })
    }

    #[test]
    fn an_algorithm_is_forced_by_number_or_name() {
        for name in ["4", "ring"] {
            let vars = [
                ("use_dynamic_rules", "yes"),
                ("allreduce_algorithm", name),
                ("allreduce_tree_fanout", "3"),
            ];
            let settings = settings(&vars, "").unwrap();
            let text = "coll_tuned_allreduce_algorithm_tree_fanout has no effect: the algorithm 4 ring does not use it";
            assert_eq!(settings.warnings, [text]);
            let facts = CollectiveFacts::new(Collective::Allreduce, 4, 8, 8, true);
            let decision = settings.selection.decide(&facts).unwrap();
            assert_eq!((decision.algorithm.algorithm().name, decision.tuning.fan_out), ("ring", 3));
            assert_eq!(
                decision.reason.to_string(),
                "coll_tuned_allreduce_algorithm (environment variable OXMPI_MCA_coll_tuned_allreduce_algorithm)"
            );
            let facts = CollectiveFacts { commutative: false, ..facts };
            let error = settings.selection.decide(&facts).unwrap_err().to_string();
            assert_eq!(
                error,
                "coll_tuned_allreduce_algorithm forces the algorithm 4 ring (environment variable \
                 OXMPI_MCA_coll_tuned_allreduce_algorithm), which cannot serve this call of 4 ranks: it needs a \
                 commutative operation"
            );
            // With one rank the forced algorithm is ignored.
            assert!(settings.selection.decide(&CollectiveFacts { ranks: 1, ..facts }).is_ok());
        }
    }

    #[test]
    fn chains_and_trees_have_separate_fan_outs() {
        let fan_out = |name| {
            let vars = [("use_dynamic_rules", "1"), ("bcast_algorithm", name)];
            let both =
                [("bcast_algorithm_tree_fanout", "3"), ("bcast_algorithm_chain_fanout", "5")];
            let settings = settings(&[vars, both].concat(), "").unwrap();
            assert_eq!(settings.warnings.len(), 1);
            let decision = settings
                .selection
                .decide(&CollectiveFacts::new(Collective::Bcast, 9, 8, 1, true))
                .unwrap();
            decision.tuning.parameters(1).fanout
        };
        assert_eq!((fan_out("knomial"), fan_out("chain")), (3, 5));
    }

    #[test]
    fn parameters_without_effect_give_a_warning() {
        let off = settings(
            &[("bcast_algorithm", "binomial"), ("dynamic_rules_filename", "there")],
            "nonsense",
        )
        .unwrap();
        assert_eq!(
            off.warnings,
            [
                "coll_tuned_bcast_algorithm has no effect without coll_tuned_use_dynamic_rules 1",
                "coll_tuned_dynamic_rules_filename has no effect without coll_tuned_use_dynamic_rules 1"
            ]
        );
        assert!(!off.selection.is_tuned(Collective::Bcast) && off.selection.rules().is_none());
        let unforced =
            settings(&[("use_dynamic_rules", "1"), ("gather_algorithm_segmentsize", "1k")], "")
                .unwrap();
        assert_eq!(
            unforced.warnings,
            [
                "coll_tuned_gather_algorithm_segmentsize has no effect without coll_tuned_gather_algorithm"
            ]
        );
    }

    #[test]
    fn errors_name_the_source_and_suggest_a_value() {
        let error = |vars: &[(&str, &str)], file| settings(vars, file).unwrap_err().to_string();
        let text = error(&[("bcast_algorithm", "binomal")], "");
        assert!(
            text.starts_with(
                "environment variable OXMPI_MCA_coll_tuned_bcast_algorithm: parameter 'coll_tuned_bcast_algorithm': \
                 'binomal' is no algorithm of bcast (did you mean 'binomial'?): expected 0 (fixed rules), 1 basic_linear"
            ),
            "{text}"
        );
        assert!(
            error(&[("bcast_algorithm", "99")], "")
                .contains("'99' is no algorithm of bcast: expected 0")
        );
        let on = ("use_dynamic_rules", "1");
        assert_eq!(
            error(&[on, ("dynamic_rules_filename", "gone")], ""),
            "environment variable OXMPI_MCA_coll_tuned_dynamic_rules_filename: coll_tuned_dynamic_rules_filename: gone: \
             No such file"
        );
        assert!(
            error(&[on, ("dynamic_rules_filename", "there")], "1\nx")
                .starts_with("there:2:1: expected")
        );
    }

    #[test]
    fn a_parameter_sets_the_requests_of_rules_without_them() {
        let file = "rule-file-version-2 1 3 1 2 2\n0 1 0 0\n100 1 0 0 5\n";
        let vars = [
            ("use_dynamic_rules", "1"),
            ("dynamic_rules_filename", "there"),
            ("alltoall_max_requests", "9"),
        ];
        let settings = settings(&vars, file).unwrap();
        assert_eq!(settings.warnings, [""; 0]);
        let requests = |bytes| {
            let facts = CollectiveFacts::new(Collective::Alltoall, 2, bytes, 1, true);
            settings.selection.decide(&facts).unwrap().tuning.max_requests
        };
        assert_eq!((requests(10), requests(50)), (9, 5));
    }
}
