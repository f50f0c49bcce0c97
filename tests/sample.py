"""Which tests `make test` leaves to `make test-all`, so that a newcomer waits minutes: everything else runs in both.

[Note: sampled tests]
`make test` covers every room and every mechanism once. Of a test of many cases it runs as many as their square root, at
even distances, the first and the last among them; of a test in FIRST the first alone, for what such a case costs; in
WHOLE each, for they are rules that hold for each code, file or message. How many cases there are is counted among the
tests that are collected. A test of LATER has its mechanism covered by tests of `make test`, which its line names,
relative to its folder. All that is left out is marked `thorough`: `make test-all` runs it, and `pytest` by hand does.
Of a test of SELDOM `make test-all` too keeps each n-th case; the others are marked `seldom` besides, and `make
campaign` runs them (`make test-seldom`). `tests/house/test_sample.py` holds all tables against the tests that exist,
and each file's seconds against BUDGET_S.
"""

import functools
import math

FIRST = (
    "ranks/",
    "unit/checkpoint/test_checkpoint_faults.py",
    "unit/checkpoint/test_convert_frozen.py",
    "unit/cli/test_diagnose.py",
    "unit/cli/test_doctor.py",
    "unit/cli/test_door.py",
    "unit/cli/test_kills.py",
    "unit/doctor/",
    "unit/families/",
    "unit/sources/test_dumps_forms.py",
    "unit/sources/test_scripts.py",
    "unit/supervise/test_launch.py",
    "unit/supervise/test_run.py",
)
"""Files, and folders that end with a slash, in which a case takes seconds."""

WHOLE = ("house/", "unit/recipe/test_messages.py")
"""The same, in which each case is a rule of its own and takes milliseconds."""

LATER: dict[str, dict[str, str]] = {
    "house/test_run_tests.py": {
        "test_what_passes_only_once_of_twice_stays_a_failure": "test_run_tests.py (what passes alone)",
    },
    "ranks/test_boxing.py": {
        "test_users_change_layouts_in_bf16_and_float32": "test_boxing.py (every ordered pair)",
    },
    "ranks/test_certificate_run.py": {
        "test_a_rank_that_departs_ends_the_run_at_once_and_is_named_by_the_launcher": (
            "test_certificate.py (a planted departure)"
        ),
        "test_a_rank_that_departs_and_goes_on_is_named_while_all_stand_and_by_the_folder_afterwards": (
            "test_certificate.py (a departure that is only reported)"
        ),
    },
    "ranks/test_check.py": {
        "test_fewer_ranks_adapt_the_presets_layout_and_all_of_them_can_be_run_dry": "test_dry_run.py",
    },
    "ranks/test_debug_prompt.py": {
        "test_a_rank_of_another_family_stops_at_a_prompt_too": "test_debug_prompt.py (bloom)",
        "test_exit_at_the_prompt_ends_the_rank": "test_debug_prompt.py (goes on)",
    },
    "ranks/test_device_times.py": {
        "test_a_late_host_is_no_straggler_while_its_device_is_not": (
            "test_device_times.py (a straggler by the device's times)"
        ),
    },
    "ranks/test_drift.py": {
        "test_repair_of_two_copies_takes_the_one_that_saves_hold": "test_drift.py (repair makes copies equal)",
        "test_one_rank_s_learning_rate_is_found": "test_drift.py (one rank's generator)",
    },
    "ranks/test_dry_run.py": {
        "test_a_real_run_that_does_otherwise_is_told": "test_certificate.py (a planted departure)",
    },
    "ranks/test_evaluation.py": {
        "test_29_sets_of_uneven_length_on_dp_4": "test_run.py (a run evaluates), ../unit/data/test_evaluate.py",
    },
    "ranks/test_families.py": {
        "test_a_llama_of_transformers_is_imported_trained_on_and_exported_by_the_verbs": (
            "test_huggingface.py (logits, bits), test_start_from.py (a start from an import)"
        ),
        "test_the_page_s_family_from_outside_trains_alike_on_one_rank_and_on_four_by_the_page_s_commands": (
            "test_layout_grid.py (layouts), ../unit/engine/test_toy_family.py (the page's family)"
        ),
        "test_a_run_is_resumed_bitwise_and_goes_on_alike_on_another_layout": (
            "test_saves.py (resumed bitwise, another layout)"
        ),
    },
    "ranks/test_folded.py": {
        "test_what_does_not_repeat_itself_is_executed": (
            "test_folded.py (each derived event is one that would have been executed)"
        ),
    },
    "ranks/test_hangs.py": {
        "test_a_slow_job_is_no_alarm_where_a_wait_does_not_block": "test_hangs.py (slow jobs)",
    },
    "ranks/test_incidents.py": {
        "test_the_hung_evaluation_of_bloom_names_its_rank_and_the_worker_s_line": "test_hangs.py (dataloader_worker)",
        "test_a_loss_that_is_printed_in_each_step_is_named_by_the_profile": (
            "test_profile.py (a read), ../unit/lens/test_stalls.py"
        ),
        "test_sharding_that_halves_the_speed_is_named_by_the_profile_with_each_of_its_causes": (
            "../unit/lens/test_work.py"
        ),
        "test_the_real_swin_hangs_under_the_published_plan_and_trains_under_the_repaired_one": (
            "../unit/plan/test_lanes.py (the plan), test_swin.py (the lanes)"
        ),
        "test_a_native_call_that_keeps_the_interpreter_is_told_with_its_rank_and_line": (
            "test_recorder.py (a rank that holds its interpreter)"
        ),
    },
    "ranks/test_inspections.py": {
        "test_a_job_that_trains_is_looked_into_and_what_it_shows_is_what_it_saves": (
            "test_inspections.py (owners answer)"
        ),
    },
    "ranks/test_launch.py": {
        "test_one_rank_can_be_checked": "test_check.py (the tiny preset)",
        "test_an_exported_save_loads_in_transformers": (
            "test_start_from.py (an export that is imported), ../unit/cli/test_export_run.py (transformers)"
        ),
        "test_a_killed_rank_ends_the_attempt_and_the_same_command_goes_on_bitwise": (
            "test_run.py (a killed rank, resumed bitwise), ../unit/supervise/test_launch.py (who died first)"
        ),
        "test_a_stopped_rank_is_named_ended_and_resumed_by_itself_bitwise": "test_hangs.py (stopped)",
        "test_interrupted_and_terminated_runs_save_and_leave_nothing_behind": "test_run.py (SIGTERM)",
        "test_the_last_save_of_a_pipeline_writes_text_on_one_process": "test_run.py (a sample)",
    },
    "ranks/test_layout_grid.py": {
        "test_the_same_layout_twice_is_bitwise_equal": "test_saves.py (resumed bitwise)",
        "test_the_clip_bug_of_bloom_is_caught": "test_drift.py (the clip bug at the first check)",
        "test_clipping_is_the_same_on_every_rank_so_replicas_stay_equal": (
            "test_drift.py (the clip bug; clean steps find nothing)"
        ),
    },
    "ranks/test_mistakes.py": {
        "test_all_commands_name_the_same_ranks_cause_and_line": "test_readme.py",
        "test_the_corrected_programs_are_no_alarm": "test_hangs.py (slow jobs)",
    },
    "ranks/test_node_scripts.py": {
        "test_two_nodes_of_a_manifest_train_one_run_and_post_what_they_see": (
            "../unit/manifests/test_manifests.py (the words of the script)"
        ),
        "test_a_stop_of_one_node_saves_on_all_and_a_node_that_is_lost_leaves_the_other_to_go_on": (
            "test_run.py (SIGTERM saves), ../unit/runs/test_choose.py (another layout), "
            "../unit/supervise/test_act.py (how long a launcher may be without ranks)"
        ),
        "test_a_node_that_joins_later_trains_on_and_the_loss_of_the_one_where_they_meet_is_told": (
            "../unit/supervise/test_nodes.py (a host that is lost), test_saves.py (another layout)"
        ),
    },
    "ranks/test_pauses.py": {
        "test_a_job_that_makes_progress_is_never_ended": "../unit/supervise/test_act.py",
        "test_a_job_without_progress_is_ended_when_the_user_asked_and_told_so_before": "../unit/supervise/test_act.py",
    },
    "ranks/test_profile.py": {
        "test_of_a_program_without_gradients_the_turns_of_its_loop_are_the_steps": "../unit/lens/test_turns.py",
    },
    "ranks/test_readme.py": {
        "test_explain_says_of_the_hanging_script_what_readme_shows": (
            "../unit/cli/test_explain_pid.py (a PID), test_readme.py (run of the same script)"
        ),
        "test_check_says_of_the_script_what_readme_shows": "../unit/sources/test_scripts.py (a wrong script is told)",
    },
    "ranks/test_recorder.py": {
        "test_forks_threads_compilation_and_exit_codes": (
            "test_hangs.py (a thread that died), test_recorder.py (every call)"
        ),
        "test_another_python_without_room_for_a_ring": (
            "../unit/sources/test_ring.py (a full disk), test_recorder.py (starts as ever)"
        ),
    },
    "ranks/test_rewind.py": {
        "test_a_run_that_is_done_is_rewound_and_learns_from_other_samples": "test_spike.py (rewound and skipped)",
    },
    "ranks/test_run.py": {
        "test_a_run_goes_on_in_another_layout_and_follows_the_same_curve": "test_saves.py (another layout)",
        "test_changed_data_is_refused_on_resume": "test_run.py (another config on one rank), test_saves.py (resumed)",
        "test_a_run_without_a_whole_save_is_not_started_anew_in_silence": (
            "test_saves.py (how to go on from the older save), ../unit/runs/test_choose.py"
        ),
    },
    "ranks/test_saves.py": {
        "test_every_damage_is_named_before_the_first_step_and_the_older_save_is_offered": (
            "../unit/checkpoint/test_checkpoint_damage.py (each damage), test_saves.py (the older save)"
        ),
        "test_with_leave_to_the_run_goes_on_from_the_save_before_the_damaged_ones": (
            "test_saves.py (what the message says is how to go on)"
        ),
        "test_a_save_that_fails_is_told_and_the_run_goes_on_to_the_next": (
            "../unit/checkpoint/test_checkpoint_faults.py (any failing operation), test_saves.py (the last save fails)"
        ),
        "test_a_save_that_waits_for_the_one_before_says_so_once": "../unit/checkpoint/test_checkpoint_background.py",
    },
    "ranks/test_schedules.py": {
        "test_in_bf16_late_weights_are_summed_over_dp_in_one_type": (
            "test_schedules.py (late weights are exact over replicas)"
        ),
    },
    "ranks/test_spike.py": {
        "test_rewound_with_a_lower_rate_the_noise_does_less_harm_and_a_stop_ends_before_it": (
            "test_spike.py (rewound and skipped)"
        ),
    },
    "ranks/test_swin.py": {
        "test_the_runs_of_the_first_deadlock_report_equal_one_rank_and_their_loss_falls": (
            "test_swin.py (a layout equals one process)"
        ),
        "test_the_same_layout_twice_is_bitwise_equal": "test_swin.py (a lane of its own, same bits)",
        "test_a_run_is_resumed_bitwise_and_goes_on_alike_on_another_layout": (
            "test_saves.py (resumed bitwise, another layout)"
        ),
    },
    "ranks/test_symptoms.py": {
        "test_the_command_of_a_symptom_runs": (
            "../house/test_references.py (commands of pages exist), ../unit/cli/test_transcripts.py (each verb)"
        ),
    },
    "ranks/test_watch_api.py": {
        "test_a_loop_that_ends_well_leaves_its_rings_and_says_nothing": (
            "test_watch_api.py (stands still: recorded, named, nothing left)"
        ),
        "test_a_rank_that_dies_is_named": "../unit/supervise/test_run.py (the rank that died)",
        "test_mismatched_calls_that_raise_no_error_are_named_while_the_loop_goes_on": "test_hangs.py (dtype)",
    },
    "unit/checkpoint/test_checkpoint_agree.py": {
        "test_two_real_processes_save_together": "../../ranks/test_saves.py (four ranks)",
    },
    "unit/checkpoint/test_checkpoint_damage.py": {
        "test_every_flipped_bit_of_the_manifest_is_found": (
            "test_checkpoint_damage.py (a manifest that is not believed)"
        ),
    },
    "unit/checkpoint/test_checkpoint_processes.py": {
        "test_no_sigkill_of_a_rank_loses_the_save_before_and_its_writer_goes_with_it": (
            "test_checkpoint_faults.py (SIGKILL at any operation)"
        ),
        "test_no_failing_operation_of_a_writer_loses_the_save_before": (
            "test_checkpoint_faults.py (any failing operation)"
        ),
        "test_no_sigkill_of_a_writer_loses_the_save_before_and_the_next_save_has_another": (
            "test_checkpoint_faults.py (SIGKILL at any operation), test_checkpoint_processes.py (a writer that was "
            "killed)"
        ),
    },
    "unit/checkpoint/test_convert_damage.py": {
        "test_accepted_damage_is_imported_and_said": "test_convert_damage.py (what is sound is imported)",
    },
    "unit/cli/test_doctor.py": {
        "test_a_bad_host_is_struck_left_out_soaked_and_admitted": (
            "../runs/test_ledger.py (strikes, left out, admitted), test_doctor.py (the verb)"
        ),
    },
    "unit/cli/test_kills.py": {
        "test_the_check_of_what_is_left_finds_a_process_that_escaped": "test_kills.py (nothing is left of a verb)",
    },
    "unit/cli/test_python_run.py": {
        "test_the_worked_notebook_runs_in_a_real_kernel": "test_python_run.py (what the notebook calls)",
    },
    "unit/cli/test_transcripts.py": {
        "test_the_transcript_of_a_proof_is_the_one_that_was_reviewed": (
            "../../ranks/test_check.py (the tiny preset), test_transcripts.py (of a script)"
        ),
    },
    "unit/data/test_indexed.py": {
        "test_megatron_reads_what_we_write": "test_indexed.py (bytes are those of the format)",
        "test_megatron_writes_the_same_bytes": "test_indexed.py (bytes are those of the format)",
        "test_we_read_what_megatron_writes": "test_indexed.py (any documents come back)",
        "test_modes_of_megatron_are_read": "test_indexed.py (any documents come back)",
        "test_floats_of_megatron_are_refused": "test_indexed.py (foreign files are refused)",
    },
    "unit/doctor/test_examination.py": {
        "test_two_faults_at_once_are_both_named": "test_plan.py (a second device beside the first)",
        "test_a_slow_device_is_named_by_its_numbers": (
            "test_plan.py (a host 5 percent slow of 64), test_kinds.py (a slow device)"
        ),
        "test_a_slow_start_is_not_accused": "test_examination.py (look-alikes)",
        "test_a_link_is_told_from_its_ends": "test_plan.py (links are told from their ends)",
        "test_a_probe_that_fails_everywhere_accuses_no_device": (
            "test_plan.py (five bad of eight), ../cli/test_doctor.py (a probe that is broken)"
        ),
    },
    "unit/doctor/test_incident.py": {
        "test_gpu_7_is_found_in_at_most_five_tests": (
            "test_plan.py (gpu 7 in five tests), ../cli/test_doctor.py (the verb)"
        ),
    },
    "unit/doctor/test_plan.py": {
        "test_a_cable_that_two_failed_sets_have_in_common_by_chance_is_tested_by_itself_before_it_is_accused": (
            "test_plan.py (bad links of one device, a switch)"
        ),
    },
    "unit/doctor/test_tries.py": {
        "test_a_device_that_fails_in_every_50th_try_is_found": (
            "test_plan.py (fails in every second try), test_tries.py (tried longer)"
        ),
    },
    "unit/health/test_growth.py": {
        "test_ten_thousand_steps_with_real_noise_and_saves_have_no_change": (
            "test_growth.py (a save, frequent bumps: no change)"
        ),
    },
    "unit/lanes/test_loader.py": {
        "test_interpreter_exits_with_a_loader_that_nobody_closed": (
            "test_ends.py (what was given is done before the end)"
        ),
    },
    "unit/match/test_match_periodic.py": {
        "test_what_is_proved_of_random_families_holds_for_larger_counts": (
            "test_match_periodic.py (1F1B and interleaved are proved)"
        ),
    },
    "unit/recipe/test_resolved_file.py": {
        "test_a_file_that_was_cut_anywhere_is_refused": (
            "test_resolved_file.py (another format), ../checkpoint/test_checkpoint_damage.py"
        ),
    },
    "unit/report/test_published.py": {
        "test_the_rows_of_the_third_set_stay_predicted": "test_published.py (three runs)",
        "test_the_rows_that_were_entered_later_stay_predicted": "test_published.py (three runs)",
        "test_runs_on_a100_lie_within_a_sixth": "test_published.py (BLOOM-176B, Megatron)",
    },
    "unit/sources/test_cuda_stand_ins.py": {
        "test_what_the_cpu_cannot_play_is_left_out_and_never_a_crash": "test_limits.py (a limit is no crash)",
        "test_an_error_in_a_stand_in_is_ours_and_a_wrong_call_of_it_the_scripts": (
            "test_limits.py (an error of ours ends the check)"
        ),
        "test_every_public_name_of_torch_cuda_keeps_its_signature_and_can_be_pickled": (
            "test_cuda_stand_ins.py (a script for two GPUs)"
        ),
    },
    "unit/sources/test_dumps_damage.py": {
        "test_an_entry_with_a_field_of_another_kind": "test_dumps_damage.py (JSON of any shape)",
        "test_an_archive_cut_or_with_wrong_bytes": "test_dumps_damage.py (a file cut, wrong bytes)",
    },
    "unit/sources/test_file_layer.py": {
        "test_a_script_that_saves_and_reloads_is_proved_without_a_view_of_the_machine": (
            "test_scripts.py (saves, reloads and evaluates), test_file_layer.py (as on the disk)"
        ),
    },
    "unit/sources/test_programs.py": {
        "test_git_and_nvidia_smi_are_answered_and_the_folder_stays": (
            "test_programs.py (what may run, what is answered), test_scripts.py (git in the view)"
        ),
    },
    "unit/sources/test_sampler.py": {
        "test_each_line_gets_the_time_that_it_took": "../lens/test_stalls.py (a stall's line and cost)",
    },
    "unit/testing/test_cluster.py": {
        "test_of_many_hosts_a_few_judge_and_all_follow": "../supervise/test_nodes.py (of many hosts one tells people)",
    },
    "unit/testing/test_replay.py": {
        "test_right_programs_end_and_about_half_of_all_do_not": "test_replay.py (each program by itself)",
    },
}
"""Of a file a test, and where `make test` covers its mechanism, relative to the file's folder."""

SELDOM: dict[str, tuple[int, str]] = {
    "ranks/test_dry_run.py::test_dry_run_equals_the_live_run": (
        2, "../../tools/campaign_dry_runs.py (every schedule, family and ZeRO stage), test_dry_run.py (the other cases)"
    ),
    "ranks/test_hangs.py::test_the_verdict_is_the_same_where_a_wait_does_not_block": (
        2, "test_hangs.py (the same programs where a wait blocks, and the other cases)"
    ),
    "ranks/test_hangs.py::test_a_slow_job_is_no_alarm_where_a_wait_does_not_block": (2, "test_hangs.py (slow jobs)"),
    "ranks/test_mistakes.py::test_all_commands_name_the_same_ranks_cause_and_line": (
        2, "test_hangs.py (the verdicts), test_readme.py (the commands), test_mistakes.py (the other cases)"
    ),
}  # fmt: skip
"""A test of which `make test-all` runs every n-th case, and where what the others show is shown too."""

BUDGET_S = 60.0
"""What one file may take in `make test`, in the seconds that `tools/run_tests.py --times` wrote down last."""

OVER: dict[str, str] = {
    "ranks/test_dry_run.py": "two whole runs of two and four ranks, live beside dry",
    "ranks/test_readme.py": "jobs that hang under `run`, as long as a reader of README waits for the verdict",
    "unit/cli/test_transcripts.py": "six lanes beside it: each verb's start, which a person waits for alone",
}
"""A file that takes more, and why."""


def is_left_out(file: str, function: str, number: int, num_cases: int) -> bool:
    """Whether `make test` leaves out the `number`-th (from 0) of the cases of `function` in `file`, below tests/."""
    if function in LATER.get(file, ()):
        return True
    if file.startswith(FIRST):
        return number > 0
    return not file.startswith(WHOLE) and number not in sample_of(num_cases)


@functools.cache
def sample_of(num_cases: int) -> frozenset[int]:
    """The cases that `make test` runs: their square root, rounded up, but both of two; at even distances."""
    if num_cases < 3:
        return frozenset(range(num_cases))
    last = math.isqrt(num_cases - 1)
    return frozenset(number * (num_cases - 1) // last for number in range(last + 1))


def is_seldom(file: str, function: str, number: int) -> bool:
    """Whether `make test-all` leaves out that case too, for `make campaign`."""
    stride, _ = SELDOM.get(f"{file}::{function}", (1, ""))
    return number % stride != 0
