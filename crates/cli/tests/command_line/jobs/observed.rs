//! The test that shows the effect of each parameter. A new parameter needs a test that sets it on a
//! job and sees its effect, and a row here.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use oxmpi_param::Param;
use oxmpi_param::tuned::COLLECTIVES;

use super::harness::root;

/// A file, a test in it (or the C program in the file), and the parameters that it sets. COLLECTIVE
/// stands for any tuned collective.
type Row = (&'static str, &'static str, &'static [&'static str]);

const OBSERVED: &[Row] = &[
    (
        "jobs/deaths.rs",
        "nonzero_exit_codes_may_leave_the_job_running",
        &["mpi_abort_on_non_zero_status"],
    ),
    ("jobs/survivors.rs", "a_singleton_survives_its_children", &["mpi_ft_enable"]),
    (
        "jobs/other_launchers.rs",
        "a_program_of_another_mpi_library_is_refused",
        &["mpi_allow_singletons"],
    ),
    ("jobs/other_launchers.rs", "no_foreign_leaves_the_library_path", &["mpi_foreign"]),
    (
        "jobs/other_launchers.rs",
        "the_text_of_the_version_is_that_of_the_user",
        &["mpi_library_version"],
    ),
    (
        "launched_by.rs",
        "without_its_library_a_protocol_is_refused_with_the_line_to_type",
        &["pmix_library", "munge_library", "munge_socket"],
    ),
    (
        "launched_by/jobs.rs",
        "processes_that_do_not_call_mpi_init_are_missed",
        &["mpi_join_limit_s"],
    ),
    (
        "allocation.rs",
        "hosts_are_chosen_within_the_allocation_and_slots_are_not_exceeded",
        &["plm_slurm_args"],
    ),
    ("jobs/parameters.rs", "arguments_are_checked_or_trusted", &["mpi_param_check"]),
    (
        "jobs/parameters.rs",
        "operations_beyond_the_standard_are_refused_on_request",
        &["mpi_strict"],
    ),
    ("jobs/parameters.rs", "errors_go_to_the_named_handler", &["mpi_initial_errhandler"]),
    (
        "jobs/selection.rs",
        "rank_0_prints_the_steps_of_the_selection_once",
        &["mpi_show_select", "btl"],
    ),
    ("jobs/hangs.rs", "usr1_is_passed_on_on_request", &["mpi_sigusr1"]),
    (
        "jobs/hangs.rs",
        "the_watchdog_reports_waiting_ranks_in_shared_memory",
        &["mpi_watchdog", "mpi_watchdog_abort"],
    ),
    ("jobs/hangs.rs", "waits_for_ended_ranks_are_reported_without_a_request", &["mpi_watch_ended"]),
    ("jobs/components.rs", "the_component_of_each_collective_is_reported", &["mpi_virtual_nodes"]),
    (
        "jobs/checkpoints.rs",
        "jobs_that_cannot_be_checkpointed_are_reported_with_the_remedy",
        &["cr_base_dir", "cr_keep", "cr_blcr_criu", "cr_blcr_options"],
    ),
    ("jobs/checkpoints.rs", "a_module_for_checkpoints_is_selected_with_what_it_needs", &["cr"]),
    (
        "jobs/checkpoints/own.rs",
        "functions_are_found_by_their_names_or_the_job_ends",
        &[
            "cr_self_user_prefix",
            "cr_self_user_checkpoint",
            "cr_self_user_restart",
            "cr_self_user_continue",
        ],
    ),
    (
        "jobs/checkpoints.rs",
        "files_that_have_grown_are_cut_back_or_refused_and_others_are_refused",
        &["cr_files"],
    ),
    ("params.rs", "hosts_send_the_address_of_the_hostmap", &["mpi_hostmap"]),
    ("mpirun.rs", "a_slow_reader_gets_all_output_of_other_hosts", &["plm_rsh_agent"]),
    ("daemons.rs", "universes_with_different_suffixes_are_separate", &["boot_session_suffix"]),
    (
        "hosts/encrypted.rs",
        "messages_between_hosts_cannot_be_read_unless_encryption_is_off",
        &["mpi_encrypt"],
    ),
    ("params.rs", "transports_are_selected_in_the_words_of_open_mpi", &["mtl", "pml"]),
    ("jobs/parameters.rs", "longer_messages_are_announced", &["rpi"]),
    (
        "jobs/parameters.rs",
        "the_highest_priority_is_selected",
        &[
            "rpi_shm_priority",
            "rpi_tcp_priority",
            "rpi_usysv_priority",
            "rpi_sysv_priority",
            "rpi_crtcp_priority",
            "rpi_lamd_priority",
        ],
    ),
    (
        "jobs/gm.rs",
        "messages_of_up_to_tinymsglen_leave_before_their_receive",
        &["rpi_gm_tinymsglen"],
    ),
    (
        "jobs/gm.rs",
        "ports_are_taken_from_2_on_and_a_rank_without_one_ends_the_job",
        &["rpi_gm_port", "rpi_gm_maxport"],
    ),
    (
        "jobs/gm.rs",
        "missing_libraries_are_named_and_checkpoints_need_their_parameter",
        &["rpi_gm_library"],
    ),
    ("jobs/gm.rs", "gm_is_selected_by_its_priority_where_there_is_a_library", &["rpi_gm_priority"]),
    ("jobs/gm.rs", "receivers_that_compute_lose_nothing", &["rpi_gm_fast"]),
    (
        "jobs/gm.rs",
        "long_messages_are_moved_from_and_to_memory_that_may_be_registered",
        &["rpi_gm_nopin", "rpi_gm_cr"],
    ),
    (
        "jobs/ib.rs",
        "the_memory_of_envelopes_is_shown",
        &[
            "rpi_ib_num_envelopes",
            "rpi_ib_tinymsglen",
            "rpi_ib_srq",
            "rpi_ib_timeout",
            "rpi_ib_shm",
            "rpi_ib_rma",
            "rpi_ib_priority",
        ],
    ),
    (
        "jobs/ib.rs",
        "missing_libraries_and_devices_are_named",
        &["rpi_ib_hca_id", "rpi_ib_port", "rpi_ib_mtu", "rpi_ib_library"],
    ),
    ("jobs/ib.rs", "ranks_without_a_port_use_sockets_if_that_is_allowed", &["rpi_ib_fallback"]),
    (
        "jobs/ofi.rs",
        "refusals_come_before_there_are_ranks",
        &["mtl_ofi_library", "mtl_ofi_provider_include", "mtl_ofi_provider_exclude"],
    ),
    ("jobs/portals4.rs", "refusals_come_before_there_are_ranks", &["mtl_portals4_library"]),
    (
        "jobs/portals4.rs",
        "memory_goes_before_the_network_within_a_node_alone",
        &["mtl_portals4_shm"],
    ),
    (
        "jobs/portals4.rs",
        "parameters_reach_the_network",
        &[
            "mtl_portals4_eager_limit",
            "mtl_portals4_short_recv_num",
            "mtl_portals4_short_recv_size",
            "mtl_portals4_recv_event_queue_size",
            "mtl_portals4_send_event_queue_size",
        ],
    ),
    ("jobs/ofi.rs", "tags_go_as_far_as_their_mode_says", &["mtl_ofi_tag_mode", "mtl_ofi_shm"]),
    ("hosts.rs", "a_job_between_hosts_with_a_fabric_goes_over_it", &["mtl_ofi_priority"]),
    ("jobs/ofi.rs", "completions_are_read_in_batches", &["mtl_ofi_progress_event_cnt"]),
    (
        "jobs/ofi.rs",
        "communicators_have_their_own_contexts_on_request",
        &["mtl_ofi_thread_grouping"],
    ),
    (
        "jobs/ofi.rs",
        "the_network_carries_frames_and_all_messages_if_it_shall_not_match_them",
        &["mtl_ofi_match"],
    ),
    (
        "jobs/parameters.rs",
        "longer_messages_are_announced",
        &[
            "shm_eager_limit_bytes",
            "rpi_tcp_short",
            "rpi_crtcp_short",
            "rpi_usysv_short",
            "rpi_sysv_short",
        ],
    ),
    (
        "jobs/parameters.rs",
        "the_kernel_buffers_the_requested_bytes",
        &["rpi_tcp_sockbuf", "rpi_crtcp_sockbuf"],
    ),
    ("jobs/surroundings.rs", "sockets_use_the_interfaces_that_are_named", &["btl_tcp_if_include"]),
    (
        "hosts/daemons.rs",
        "a_link_that_is_cut_for_a_while_loses_nothing_and_one_that_stays_cut_is_reported",
        &["mpi_agent_silence_s"],
    ),
    (
        "jobs/tree.rs",
        "the_head_has_as_many_children_and_answers_as_the_fan_out",
        &["mpi_agent_fan_out"],
    ),
    ("hosts.rs", "an_unreachable_address_is_skipped_and_reported", &["btl_tcp_if_exclude"]),
    // The guide's shared memory: the program computes the size of the segment and the number of
    // pieces by the guide's formulas.
    (
        "jobs/postboxes.rs",
        "postboxes_and_pools_of_any_size_lose_nothing",
        &[
            "rpi_usysv_shmpoolsize",
            "rpi_usysv_shmmaxalloc",
            "rpi_sysv_shmpoolsize",
            "rpi_sysv_shmmaxalloc",
        ],
    ),
    (
        "jobs/parameters.rs",
        "postboxes_are_polled_the_requested_number_of_times",
        &[
            "rpi_usysv_readlockpoll",
            "rpi_usysv_writelockpoll",
            "rpi_usysv_pollyield",
            "rpi_sysv_pollyield",
        ],
    ),
    ("jobs/semaphores.rs", "limits_are_reported_with_the_remedy", &["rpi_sysv_semaphores"]),
    (
        "jobs/parameters.rs",
        "rings_and_inboxes_have_the_requested_size",
        &["shm_ring_slots", "shm_ring_data_bytes", "shm_inbox_cells", "shm_max_rings"],
    ),
    (
        "jobs/parameters.rs",
        "the_pool_and_the_heap_have_the_requested_size",
        &["shm_pool_bytes", "shm_heap_bytes"],
    ),
    ("jobs/parameters.rs", "receivers_copy_messages_alone_on_request", &["single_copy"]),
    ("jobs/parameters.rs", "messages_are_copied_as_the_file_of_costs_says", &["shm_copy_costs"]),
    ("c/mpit_effects.c", "mpit_effects", &["shm_ring_after", "shm_pool_from_bytes"]),
    (
        "jobs/parameters.rs",
        "a_rank_waits_awake_for_the_requested_time",
        &["wait_spin_us", "wait_yield_us", "wait_yields", "wait_sleeping", "wait_slow_yield_us"],
    ),
    (
        "jobs/components.rs",
        "an_attribute_names_the_component_of_new_communicators",
        &["coll_verbose"],
    ),
    (
        "jobs/components.rs",
        "strict_order_is_strict_until_the_program_changes_it",
        &["coll_base_associative"],
    ),
    (
        "jobs/components.rs",
        "barriers_of_sync_hold_a_fast_rank_back",
        &["coll_sync_barrier_before", "coll_sync_barrier_after"],
    ),
    (
        "jobs/ucc.rs",
        "results_are_those_of_mpi",
        &["coll_ucc_enable", "coll_ucc_priority", "coll_ucc_verbose", "coll_ucc_cls"],
    ),
    (
        "jobs/hcoll.rs",
        "a_plan_serves_calls_that_hcoll_refuses",
        &["coll_hcoll_enable", "coll_hcoll_verbose", "coll_hcoll_np", "coll_hcoll_priority"],
    ),
    (
        "jobs/hcoll.rs",
        "without_a_context_at_one_rank_plans_serve_all_ranks_with_the_reason",
        &["coll_hcoll_library"],
    ),
    (
        "jobs/accelerator.rs",
        "unserved_calls_are_errors_with_the_reason",
        &["accelerator", "accelerator_cuda_library"],
    ),
    ("jobs/ucc.rs", "types_and_sizes_are_chosen", &["coll_ucc_cts", "coll_ucc_np"]),
    ("jobs/ucc.rs", "without_the_library_plans_serve_with_the_reason", &["coll_ucc_library"]),
    (
        "jobs/agreements.rs",
        "the_component_of_an_agreement_is_reported",
        &[
            "coll_ftagree_agreement",
            "coll_ftagree_era_topology",
            "coll_ftagree_era_rebuild",
            "coll_ftagree_priority",
        ],
    ),
    (
        "jobs/components.rs",
        "long_vectors_travel_in_segments_between_nodes",
        &["coll_smp_segmentsize"],
    ),
    (
        "jobs/components.rs",
        "the_component_of_each_collective_is_reported",
        &["coll_smp_virtual_nodes"],
    ),
    (
        "jobs/parameters.rs",
        "the_component_of_the_highest_priority_serves",
        &[
            "coll_self_priority",
            "coll_sync_priority",
            "coll_smp_priority",
            "coll_shmem_priority",
            "coll_inter_priority",
            "coll_tuned_priority",
            "coll_libnbc_priority",
            "coll_basic_priority",
        ],
    ),
    (
        "jobs/parameters.rs",
        "basic_crosses_over_at_the_parameters",
        &["coll", "coll_crossover", "coll_reduce_crossover"],
    ),
    (
        "jobs/parameters.rs",
        "a_message_pool_needs_room_for_a_line_for_each_rank_in_its_segments",
        &["coll_base_shmem_message_pool_size", "coll_base_shmem_num_segments"],
    ),
    (
        "jobs/forced.rs",
        "a_rules_file_chooses_by_sizes_and_a_parameter_is_stronger",
        &["coll_tuned_dynamic_rules_filename"],
    ),
    (
        "jobs/parameters.rs",
        "the_tuning_of_a_forced_algorithm_counts",
        &[
            "coll_tuned_use_dynamic_rules",
            "coll_tuned_COLLECTIVE_algorithm",
            "coll_tuned_COLLECTIVE_algorithm_segmentsize",
            "coll_tuned_COLLECTIVE_algorithm_tree_fanout",
            "coll_tuned_COLLECTIVE_algorithm_chain_fanout",
            "coll_tuned_COLLECTIVE_algorithm_max_requests",
        ],
    ),
];

fn family(param: &Param) -> String {
    let tuned = param.name.strip_prefix("coll_tuned_");
    // The longest first: reduce_scatter_block also begins with reduce.
    let mut collectives = COLLECTIVES;
    collectives.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let found = tuned.and_then(|rest| {
        collectives
            .into_iter()
            .find(|name| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with("_algorithm")))
    });
    match found {
        Some(collective) => param.name.replacen(collective, "COLLECTIVE", 1),
        None => param.name.to_string(),
    }
}

fn text_of(file: &str, test: &str) -> Result<String, String> {
    let path = match file.strip_prefix("c/") {
        Some(_) => root().join("tests").join(file),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command_line").join(file),
    };
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if file.starts_with("c/") {
        return Ok(text);
    }
    let mut parts = text.split("#[test]\n");
    let (mut found, mut all) = (false, parts.next().unwrap_or_default().to_string());
    for part in parts {
        let (body, rest) = part.split_once("\n}\n").unwrap_or((part, ""));
        all += rest;
        // Tests of the nightly run are indented in a module.
        let body = body
            .trim_start()
            .trim_start_matches("#[ignore = \"cargo xtask nightly\"]")
            .trim_start();
        if body.starts_with(&format!("fn {test}()")) {
            found = true;
            all += body;
        }
    }
    if found { Ok(all) } else { Err(format!("{file} has no test {test}")) }
}

fn sets(text: &str, param: &Param) -> bool {
    let names = param.aliases.iter().copied().chain([param.name]);
    let spelt = |name: &str| {
        let guide = name.split_once('_').map(|(kind, rest)| format!("{kind}_ssi_{rest}"));
        [Some(name.to_string()), guide, Some(format!("OXMPI_MCA_{name}"))]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
    };
    names.flat_map(spelt).any(|name| text.contains(&format!("\"{name}\"")))
}

#[test]
fn every_parameter_has_a_test_that_sees_its_effect() {
    let mut families: BTreeMap<String, Vec<&Param>> = BTreeMap::new();
    Param::all().iter().for_each(|param| families.entry(family(param)).or_default().push(param));
    let mut wrong = Vec::new();
    for (file, test, names) in OBSERVED {
        let text = text_of(file, test).unwrap_or_else(|error| {
            wrong.push(error);
            String::new()
        });
        for name in *names {
            match families.get(*name) {
                None => wrong.push(format!("{test}: there is no parameter {name}")),
                Some(params) if !params.iter().any(|param| sets(&text, param)) => {
                    wrong.push(format!("{test}: it does not set {name}"));
                }
                Some(_) => {}
            }
        }
    }
    for name in families.keys() {
        let times = OBSERVED.iter().filter(|(_, _, names)| names.contains(&name.as_str())).count();
        if times != 1 {
            wrong.push(format!("{name}: {times} tests are named that see what it does, not 1"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
