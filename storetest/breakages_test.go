package storetest_test

// breakage names rules that a bug breaks. A name with a star stands for all
// rules that match it, of which one at least must fail.
type breakage struct {
	bug   bug
	rules []string
}

// breakages are the bugs of a backend.
func breakages() []breakage {
	var all []breakage
	for _, group := range [][]breakage{
		claimBreakages(), repetitionBreakages(), fencingBreakages(), outcomeBreakages(), retentionBreakages(), optionalBreakages(), keyBreakages(),
	} {
		all = append(all, group...)
	}
	return all
}

func claimBreakages() []breakage {
	return []breakage{
		{takesLive, []string{"claim/take/claimed", "concurrency/*", "concurrency/nobody_takes_a_live_claim", "race/*", "retention/claim_outlives_its_retention", "walk/*", "claim/*/claimed*", "claim/*"}},
		{readThenWrite, []string{"concurrency/one_of_many_acquires/*", "race/*", "concurrency/tokens_and_attempts_are_never_given_twice"}},
		{takeAbsentAlways, []string{"claim/take/absent", "claim/*/absent", "retention/ended_record_behaves_as_absent"}},
		{expectIgnored, []string{"claim/expected_token/*", "claim/expected_token/lease_ended"}},
		{outcomeNotFound, []string{"claim/*/succeeded", "claim/*/failed", "race/paused_takeover_meets_Complete", "owner/late_copy_after_completion_gets_the_outcome", "outcome/accepted_after_lease_end_before_takeover", "walk/*"}},
		{releasedIsHeld, []string{"claim/take/released", "release/clean_release_needs_its_permission"}},
		{unknownIsReleased, []string{"claim/take/lease_ended", "unknown/is_never_a_fresh_run", "renew/excludes_others_beyond_the_first_lease"}},
		{heldIsUnknown, []string{"claim/take/held", "held/*"}},
		{doubtIgnored, []string{"claim/take/released_in_doubt", "release/doubt_is_set", "doubt/set_by_takeover_and_kept"}},
		{takeoverNotInDoubt, []string{"claim/take/lease_ended", "doubt/not_executed_then_crash_is_doubt_again", "unknown/is_never_a_fresh_run"}},
		{heldForgotten, []string{"claim/take/held", "held/again_after_release", "held/again_after_lease_end", "release/held_is_set"}},
		{doubtForgotten, []string{"claim/*/*", "doubt/set_by_takeover_and_kept", "annotate/leaves_the_lease_alone", "owner/repeated_takeover_is_taken_over_once"}},
		{refsForgotten, []string{"annotate/references_survive_all_that_follows", "race/paused_takeover_meets_Annotate"}},
		{attemptStuck, []string{"claim/attempts_and_tokens_rise_with_each_claim"}},
		{claimsForgetAudit, []string{"race/paused_takeover_meets_Annotate_not_executed", "outcome/audit_survives_a_completion_without_one"}},
		{newRecordInherits, []string{"retention/ended_record_behaves_as_absent"}},
		{claimLosesOutcome, []string{"owner/late_copy_after_completion_gets_the_outcome", "claim/take/succeeded"}},
		{leaseInSeconds, []string{"claim/fractions_and_years_of_a_lease_are_kept", "walk/*"}},
		{leaseAtLeastASecond, []string{"claim/shortest_lease_is_a_lease"}},
		{leaseHasMargin, []string{"claim/first_claim_is_attempt_one_with_a_token", "claim/window/absent"}},
		{leaseIsShort, []string{"claim/first_claim_is_attempt_one_with_a_token", "claim/lease_excludes_others_until_it_ends"}},
		{tokenKeptOnRelease, []string{"claim/*/released", "token/rises_over_everything", "token/rises_over_reset", "claim/attempts_and_tokens_rise_with_each_claim"}},
		{tokenPerRecord, []string{"concurrency/all_methods_at_once", "token/rises_over_purge", "token/rises_over_everything", "token/rises_across_handles"}},
		{restartForgetsToken, []string{"token/rises_over_restart"}},
		{printAfterReplay, []string{"claim/fingerprint/succeeded", "claim/fingerprint/failed", "outcome/nothing_touches_it"}},
		{printIgnoredOnTakeover, []string{"claim/fingerprint/lease_ended", "corrupt/unknown_fingerprint_key_is_reported"}},
		{printIgnoredOnReleased, []string{"claim/fingerprint/released", "claim/owner/released"}},
		{onlyFirstPrint, []string{"claim/fingerprint/*"}},
		{lastPrintStored, []string{"claim/first_fingerprint_given_is_stored"}},
		{printOfLast, []string{"claim/fingerprint_outlives_claims_without_one"}},
		{zeroIsADigest, []string{"claim/zero_fingerprint_is_none", "claim/fingerprint/*"}},
		{zeroHidesOthers, []string{"claim/zero_fingerprint_is_none"}},
		{unknownKeyIsEqual, []string{"claim/fingerprint/*", "corrupt/unknown_fingerprint_key_is_reported"}},
		{unknownKeyIsMismatch, []string{"claim/fingerprint/*", "corrupt/unknown_fingerprint_key_is_reported"}},
		{printOfFirstOnly, []string{"claim/later_claim_sets_a_missing_fingerprint"}},
		{releasedInDoubt, []string{"doubt/not_set_by_clean_releases", "release/frees_the_key"}},
		{refusedSetsPrint, []string{"claim/refused_claim_sets_no_fingerprint"}},
	}
}

func repetitionBreakages() []breakage {
	return []breakage{
		{ownClaimRefused, []string{"claim/owner/*", "owner/repeated_claim_is_acquired_once", "concurrency/copies_of_one_claim_acquire_once", "provider/claim_that_changes_nothing_adds_none"}},
		{ownClaimExtends, []string{"owner/repeated_claim_is_acquired_once", "owner/repeated_claim_after_lease_end_is_still_its_own"}},
		{ownClaimExpects, []string{"claim/owner/claimed", "owner/repeated_resolve_does_not_conflict_with_itself"}},
		{ownClaimCounts, []string{"concurrency/copies_of_one_claim_acquire_once", "owner/repeated_claim_is_acquired_once"}},
		{ownTakeoverIsDoubt, []string{"owner/repeated_takeover_without_doubt_is_acquired"}},
		{ownTakeoverIsFresh, []string{"owner/repeated_takeover_is_taken_over_once"}},
		{lateCopyAccepted, []string{"claim/owner/*", "owner/late_copy_after_release_is_refused", "walk/*"}},
		{ownerHidden, []string{"owner/last_owner_is_remembered", "race/*"}},
		{releaseForgetsOwner, []string{"claim/owner/held", "owner/last_owner_is_remembered"}},
		{completeNotIdempotent, []string{"value/every_field_of_the_outcome_is_kept", "outcome/completion_is_idempotent"}},
		{outcomeRewritten, []string{"concurrency/copies_of_one_completion_count_once", "retention/reading_does_not_extend_it"}},
		{moreCarefulIgnored, []string{"release/more_careful_repetition_stands", "release/more_careful_repetition_is_kept"}},
		{moreCarefulRefused, []string{"release/more_careful_repetition_stands", "release/more_careful_repetition_is_kept"}},
		{lessCarefulRefused, []string{"release/less_careful_repetition_changes_nothing", "release/more_careful_repetition_stands"}},
		{lastReleaseWins, []string{"release/less_careful_repetition_changes_nothing", "release/more_careful_repetition_stands"}},
		{lateForgetsProviders, []string{"release/less_careful_repetition_changes_nothing"}},
		{heldLateIsDoubt, []string{"release/more_careful_repetition_stands"}},
		{heldLateEnds, []string{"release/more_careful_repetition_is_kept"}},
		{releaseNotIdempotent, []string{"release/is_idempotent", "owner/claim_of_unknown_fate_is_given_up_with_token_zero"}},
	}
}

func fencingBreakages() []breakage {
	return []breakage{
		{completeUnowned, []string{"fencing/*", "fencing/after_takeover/*", "outcome/refused_after_takeover", "outcome/nothing_touches_it", "outcome/completion_with_token_zero_is_idempotent"}},
		{releaseUnowned, []string{"fencing/*", "fencing/after_takeover/*", "release/late_copy_does_not_touch_the_next_claim", "release/more_careful_repetition_after_the_next_claim_is_refused", "release/more_careful_repetition_after_reset_is_refused"}},
		{renewUnowned, []string{"fencing/*", "fencing/after_takeover/*", "renew/excludes_others_beyond_the_first_lease"}},
		{annotateUnowned, []string{"fencing/*", "fencing/after_takeover/*", "fencing/after_own_release"}},
		{tokenUnchecked, []string{"fencing/token_zero_is_for_release_and_complete", "fencing/wrong_owner_or_token"}},
		{ownerUnchecked, []string{"fencing/wrong_owner_or_token"}},
		{settledStillActs, []string{"fencing/after_own_release"}},
		{zeroOwnerHolds, []string{"reset/forgets_the_owner"}},
		{zeroRefused, []string{"release/is_idempotent", "fencing/owner_acts_after_lease_end_until_takeover"}},
		{zeroEverywhere, []string{"fencing/token_zero_is_for_release_and_complete"}},
		{absentIsNotFound, []string{"fencing/key_without_a_record", "corrupt/empty"}},
		{completeRefusedLate, []string{"outcome/accepted_after_lease_end_before_takeover", "fencing/owner_acts_after_lease_end_until_takeover"}},
		{releaseRefusedLate, []string{"release/accepted_after_lease_end", "fencing/owner_acts_after_lease_end_until_takeover"}},
		{renewRefusedLate, []string{"race/paused_takeover_meets_Renew", "fencing/owner_acts_after_lease_end_until_takeover"}},
		{renewDoesNothing, []string{"renew/lease_ends_its_length_from_now"}},
		{renewAdds, []string{"renew/lease_ends_its_length_from_now", "renew/revives_a_lease_that_has_ended"}},
		{renewNeverShorter, []string{"renew/shorter_lease_is_shorter", "renew/keeps_the_held_flag"}},
		{renewDropsHeld, []string{"renew/keeps_the_held_flag"}},
		{renewIsAClaim, []string{"renew/changes_nothing_else", "claim/time_left_and_age_move_with_the_clock"}},
		{renewRaisesToken, []string{"renew/changes_nothing_else", "token/stays_while_the_claim_stands", "key/keys_are_independent"}},
		{annotateRenews, []string{"annotate/leaves_the_lease_alone"}},
		{annotateTouches, []string{"annotate/repetition_changes_nothing"}},
		{lostUpdates, []string{"concurrency/annotations_are_all_kept"}},
	}
}

func outcomeBreakages() []breakage {
	return []breakage{
		{outcomeOverwritten, []string{"outcome/other_bytes_are_refused", "outcome/nothing_touches_it", "concurrency/copies_of_one_completion_count_once"}},
		{valueEndsAtNUL, []string{"value/round_trips_byte_for_byte"}},
		{valueIsText, []string{"value/round_trips_byte_for_byte"}},
		{valueTrimmed, []string{"value/round_trips_byte_for_byte"}},
		{codecDropped, []string{"value/every_field_of_the_outcome_is_kept"}},
		{recoveredDropped, []string{"value/every_field_of_the_outcome_is_kept"}},
		{codeCut, []string{"value/every_field_of_the_outcome_is_kept"}},
		{recordedAtMissing, []string{"outcome/audit_is_stored_with_the_backends_time", "outcome/is_recorded_and_found"}},
		{completeDropsDoubt, []string{"outcome/clears_held_and_keeps_doubt", "doubt/set_by_takeover_and_kept"}},
		{completeDropsRefs, []string{"annotate/references_survive_all_that_follows", "params/are_not_retained"}},
		{heldStays, []string{"outcome/clears_held_and_keeps_doubt"}},
		{doubtClearedByRelease, []string{"doubt/set_by_takeover_and_kept", "claim/owner/released_in_doubt_again"}},
		{doubtNotSet, []string{"release/doubt_is_set", "claim/owner/released_in_doubt"}},
		{heldClearedByRelease, []string{"held/again_after_release"}},
		{notExecutedIgnored, []string{"provider/not_executed_begins_windows_anew", "annotate/not_executed_clears_doubt_and_held"}},
		{providersStay, []string{"provider/release_not_executed_forgets_providers", "release/not_executed_clears_everything"}},
		{refsTwice, []string{"annotate/references_are_in_order_without_duplicates", "annotate/repetition_changes_nothing"}},
		{refsSorted, []string{"annotate/references_are_in_order_without_duplicates"}},
		{auditByCaller, []string{"release/audit_is_stored_with_the_backends_time", "annotate/audit_is_stored_with_the_backends_time", "edit/audit_is_stored_with_the_backends_time"}},
		{auditForgotten, []string{"annotate/audit_is_stored_with_the_backends_time", "outcome/audit_survives_a_completion_without_one"}},
		{windowIgnored, []string{"claim/window/*", "provider/window_over_forbids_taking", "provider/shortest_window_decides"}},
		{onlyFirstWindow, []string{"provider/shortest_window_decides"}},
		{newWindowIgnored, []string{"provider/shortest_window_decides", "claim/window/held"}},
		{windowWithoutDoubt, []string{"provider/does_not_apply_without_doubt", "claim/window/released"}},
		{onlyNamedBegin, []string{"provider/clean_record_begins_windows_anew"}},
		{windowsBeginInDoubt, []string{"provider/windows_go_on_in_doubt", "provider/known_name_keeps_window_and_beginning"}},
		{windowsBeginWhenHeld, []string{"provider/windows_go_on_in_doubt"}},
		{windowsBeginOnTakeover, []string{"provider/windows_go_on_in_doubt", "provider/known_name_keeps_window_and_beginning"}},
		{lateCopyMovesWindows, []string{"provider/late_copy_of_not_executed_moves_no_window"}},
		{lateCopyMovesWithRefs, []string{"provider/late_copy_of_not_executed_moves_no_window"}},
		{lateCopyIsAChange, []string{"provider/late_copy_of_not_executed_moves_no_window"}},
		{windowsOutliveClean, []string{"provider/clean_record_begins_windows_anew"}},
		{windowRestarts, []string{"provider/known_name_keeps_window_and_beginning"}},
		{windowsGoOn, []string{"provider/not_executed_begins_windows_anew"}},
		{providersOfFirstClaim, []string{"provider/release_not_executed_forgets_providers", "provider/window_begins_with_the_claim_that_names_it"}},
		{elapsedStands, []string{"provider/window_begins_with_the_claim_that_names_it", "claim/time_left_and_age_move_with_the_clock"}},
		{ageHidden, []string{"claim/refused_claim_shows_the_holder", "claim/time_left_and_age_move_with_the_clock"}},
		{claimedAtHidden, []string{"claim/first_claim_is_attempt_one_with_a_token"}},
		{lengthOfLeaseShown, []string{"renew/lease_ends_its_length_from_now", "renew/revives_a_lease_that_has_ended"}},
	}
}

func retentionBreakages() []breakage {
	return []breakage{
		{retentionFromClaim, []string{"retention/counts_from_completion"}},
		{claimsRetention, []string{"retention/of_the_completion_counts_not_of_the_claim"}},
		{retentionInSeconds, []string{"retention/fractions_and_years_are_kept"}},
		{readExtends, []string{"retention/reading_does_not_extend_it", "inspect/changes_nothing", "owner/late_copy_after_completion_gets_the_outcome"}},
		{inspectExtends, []string{"inspect/changes_nothing", "claim/take/claimed"}},
		{expiredStays, []string{"claim/*/retention_ended", "retention/of_the_completion_counts_not_of_the_claim", "token/*", "purge/removes_what_has_ended_and_nothing_else"}},
		{unknownExpires, []string{"retention/held_record_does_not_end", "retention/unknown_record_does_not_end", "retention/claim_outlives_its_retention"}},
		{unknownEnds, []string{"retention/unknown_record_does_not_end"}},
		{releasedNotKept, []string{"retention/released_record_is_kept_as_long", "reset/record_is_kept_as_long"}},
		{garbageIsAbsent, []string{"corrupt/empty", "corrupt/truncated", "corrupt/wrong_type", "corrupt/higher_format", "corrupt/unknown_state", "corrupt/missing_outcome"}},
		{garbageIsUnavail, []string{"corrupt/*"}},
		{formatIgnored, []string{"corrupt/higher_format", "purge/leaves_unreadable_records"}},
		{noDeadlineIsExpired, []string{"corrupt/missing_deadline", "corrupt/zero_deadline"}},
		{missingOutcomeEmpty, []string{"corrupt/missing_outcome"}},
		{stateIsReleased, []string{"corrupt/unknown_state", "purge/leaves_unreadable_records"}},
		{purgeTakesUnknown, []string{"purge/leaves_unknown_records_unless_asked", "purge/removes_what_has_ended_and_nothing_else"}},
		{purgeTakesReleased, []string{"purge/removes_what_has_ended_and_nothing_else"}},
		{purgeTakesGarbage, []string{"purge/leaves_unreadable_records"}},
		{purgeByClaimTime, []string{"purge/removes_old_unknown_records_if_asked"}},
		{purgeUnknownIgnored, []string{"token/rises_over_purge", "purge/removes_old_unknown_records_if_asked"}},
		{purgeGiant, []string{"purge/goes_in_bounded_steps"}},
		{purgeInTwoSteps, []string{"purge/leaves_what_is_claimed_meanwhile", "purge/leaves_what_is_completed_meanwhile"}},
		{purgeUnpaced, []string{"purge/keeps_to_its_rate"}},
		{purgeUnchecked, []string{"purge/refuses_what_is_not_possible"}},
		{purgeFromClaim, []string{"purge/changes_no_answer"}},
		{purgeForgetsSum, []string{"purge/can_be_ended_and_goes_on"}},
	}
}

func optionalBreakages() []breakage {
	return []breakage{
		{redactKeepsValue, []string{"redact/leaves_a_tombstone"}},
		{redactKeepsRefs, []string{"redact/leaves_a_tombstone", "redact/failure_keeps_its_code"}},
		{redactKeepsMessage, []string{"redact/failure_keeps_its_code"}},
		{redactKeepsBody, []string{"redact/failure_keeps_its_code"}},
		{redactDropsCode, []string{"redact/failure_keeps_its_code"}},
		{redactCounts, []string{"redact/is_idempotent"}},
		{redactUndone, []string{"redact/late_completion_does_not_undo_it"}},
		{editBlind, []string{"redact/is_a_compare_and_set", "reset/is_a_compare_and_set"}},
		{editInTwoSteps, []string{"reset/one_of_many_succeeds"}},
		{editAllKeys, []string{"edit/other_keys_are_untouched"}},
		{resetKeepsToken, []string{"token/rises_over_reset", "reset/lets_the_key_run_again"}},
		{resetKeepsOwner, []string{"reset/forgets_the_owner", "fencing/after_reset", "release/more_careful_repetition_after_reset_is_refused"}},
		{resetKeepsDoubt, []string{"reset/works_on_what_is_settled_or_ended"}},
		{resetTakesLive, []string{"reset/is_a_compare_and_set"}},
		{resetOnlyCompleted, []string{"reset/works_on_what_is_settled_or_ended", "fencing/after_reset"}},
		{resetForgetsRequest, []string{"reset/keeps_fingerprint_and_references"}},
		{resetForgetsRefs, []string{"reset/keeps_fingerprint_and_references"}},
		{resetForgetsAttempts, []string{"reset/lets_the_key_run_again", "reset/works_on_what_is_settled_or_ended"}},
		{listLimitIgnored, []string{"list/pages_show_each_record_once", "list/changes_nothing"}},
		{listRepeats, []string{"list/pages_show_each_record_once", "list/states_are_those_of_the_clock"}},
		{listStored, []string{"list/records_are_as_inspected_without_value", "list/states_are_those_of_the_clock"}},
		{listsExpired, []string{"list/ended_records_are_absent", "list/records_are_as_inspected_without_value"}},
		{listShowsValue, []string{"list/records_are_as_inspected_without_value"}},
		{listDropsRefs, []string{"list/records_are_as_inspected_without_value"}},
		{listExtends, []string{"list/changes_nothing"}},
		{listPrefixIsPattern, []string{"list/prefix_is_taken_literally"}},
		{watchSilent, []string{"watch/hints_after_completion_and_release", "watch/hints_reach_the_other_handle"}},
		{watchesNeverEnd, []string{"watch/ends_with_its_context"}},
		{selfIsAnother, []string{"reuser/self_is_the_backend"}},
		{answerMixed, []string{"reuser/all_of_the_answer_is_written"}},
		{answerKept, []string{"reuser/nothing_of_the_callers_is_kept"}},
		{answerShared, []string{"reuser/nothing_of_the_callers_is_kept"}},
		{retainerZero, []string{"optional/retainer_tells_a_retention"}},
		{checkerMute, []string{"optional/checker_tells_findings"}},
	}
}

func keyBreakages() []breakage {
	return []breakage{
		{keysFolded, []string{"list/prefix_is_taken_literally", "key/hostile_keys_are_distinct"}},
		{keysTrimmed, []string{"edit/other_keys_are_untouched", "key/hostile_keys_are_distinct"}},
		{keysCut, []string{"key/hostile_keys_are_distinct"}},
		{keysIgnored, []string{"key/keys_are_independent", "key/hostile_keys_are_distinct", "concurrency/different_keys_do_not_meet"}},
		{nulEndsKey, []string{"key/unstorable_keys_are_refused_or_kept_apart"}},
		{namespaceFlat, []string{"key/namespaces_are_apart", "list/pages_show_each_record_once"}},
		{invalidKeyIsUnknown, []string{"key/unstorable_keys_are_refused_or_kept_apart"}},
		{paramsRetained, []string{"params/are_not_retained"}},
		{valuesShared, []string{"value/of_a_claim_is_the_callers_own"}},
		{valuesHaveNeighbours, []string{"value/of_a_claim_is_the_callers_own"}},
		{snapshotsShared, []string{"inspect/result_is_a_snapshot"}},
		{sentinelAfterEffect, []string{"context/ended_claim_is_recognised", "context/ended_calls_are_repeatable"}},
		{endedSaysNotFound, []string{"context/ended_calls_are_repeatable"}},
		{endedHangs, []string{"context/ended_claim_is_recognised", "context/ended_calls_are_repeatable"}},
		{waitUnbounded, []string{"context/wait_for_a_transaction_is_bounded"}},
		{waitTellsLease, []string{"context/wait_for_a_transaction_is_bounded"}},
		{errorsNameKeys, []string{"errors/texts_hold_no_key_and_no_value"}},
		{errorsNameValues, []string{"errors/texts_hold_no_key_and_no_value"}},
		{waitIgnored, []string{"context/wait_for_a_transaction_ends_with_it", "context/wait_for_a_transaction_is_bounded"}},
		{waitIgnoresContext, []string{"context/wait_for_a_transaction_ends_with_it"}},
		{handlesApart, []string{"watch/hints_reach_the_other_handle", "concurrency/handles_see_each_other", "fencing/on_the_other_handle"}},
		{panics, []string{"claim/first_claim_is_attempt_one_with_a_token", "concurrency/nobody_takes_a_live_claim"}},
	}
}

func cacheBreakages() []breakage {
	return []breakage{
		{missIsNil, []string{"cache/miss_is_not_found"}},
		{copyLacksRefs, []string{"cache/copy_comes_back_whole"}},
		{olderWins, []string{"cache/newer_copy_wins", "cache/slow_reader_puts_nothing_old_back"}},
		{revisionIgnored, []string{"cache/newer_copy_wins"}},
		{tokenIsSigned, []string{"cache/newer_copy_wins"}},
		{tokenIsText, []string{"cache/newest_of_many_wins", "cache/newer_copy_wins"}},
		{timeIgnored, []string{"cache/reading_does_not_extend", "cache/copy_ends_with_its_time"}},
		{readingExtends, []string{"cache/reading_does_not_extend", "cache/copy_ends_with_its_time"}},
		{noTimeIsForever, []string{"cache/no_time_puts_nothing"}},
		{holdsAnything, []string{"cache/holds_completed_records_only"}},
		{deleteKeeps, []string{"cache/delete_removes_and_leaves_a_marker", "cache/slow_reader_puts_nothing_old_back"}},
		{noMarker, []string{"cache/shorter_marker_does_not_shorten", "cache/delete_removes_and_leaves_a_marker"}},
		{markerForever, []string{"cache/marker_ends"}},
		{markerShortened, []string{"cache/shorter_marker_does_not_shorten"}},
		{markerForAll, []string{"cache/delete_removes_and_leaves_a_marker"}},
		{cacheKeysFolded, []string{"cache/keys_are_distinct"}},
		{copyRetained, []string{"cache/params_are_not_retained", "cache/garbage_is_a_miss"}},
		{garbageIsCorrupt, []string{"cache/garbage_is_a_miss"}},
		{garbageStays, []string{"cache/garbage_is_a_miss"}},
		{endedIsEmpty, []string{"cache/ended_context_is_no_answer"}},
		{putWithoutCheck, []string{"cache/newest_of_many_wins"}},
	}
}
