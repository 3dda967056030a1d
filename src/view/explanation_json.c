/*
 * explanation_json.c - an explanation for programs. The members are a contract with them: add, never change.
 *
 * See explanation.h. Times are in UTC.
 */
#include "base/clock.h"
#include "base/date.h"
#include "base/errno_name.h"
#include "view/explanation.h"
#include "view/inflight.h"
#include "view/json.h"

static void write_time(struct json *json, const char *key, uint64_t wall_ns)
{
    char time[32];
    time_rfc3339(wall_ns, time, sizeof time);
    json_string(json, key, time);
}

static void write_rate(struct json *json, const char *key, uint64_t permille)
{
    json_tenths(json, key, permille);
}

static void write_piece(struct json *json, const struct explanation *explanation, const struct evidence *piece)
{
    char label[FAILURE_LABEL_MAX], address[DESTINATION_MAX];
    const bool is_slow = (piece->marks & EVIDENCE_SLOW) != 0;
    json_open(json, NULL, '{');
    write_time(json, "time", piece->time_ns);
    json_unsigned(json, "mono_ns", piece->mono_ns);
    json_unsigned(json, "counted_ns", piece->counted_ns);
    json_unsigned(json, "pid", piece->pid);
    json_string(json, "program", piece->program);
    json_string(json, "phase", inflight_phase((enum phase)piece->phase));
    json_string(json, "kind", is_slow ? NULL : failure_label(piece->kind, piece->http_status, label));
    json_bool(json, "slow", is_slow);
    json_string(json, "errno", piece->error != 0 ? errno_name(piece->error) : NULL);
    json_unsigned(json, "elapsed_us", piece->elapsed_ns / NS_PER_US);
    json_bool(json, "overdue", piece->overran == OVERRAN_HANGS);
    json_bool(json, "came", piece->overran == OVERRAN_CAME);
    json_bool(json, "injected", (piece->marks & EVIDENCE_INJECTED) != 0);
    json_string(json, "address",
                evidence_address(&explanation->selected->segment, explanation->circuit, piece->address, address)
                    ? address
                    : NULL);
    json_close(json, '}');
}

static void write_pieces(struct json *json, const char *key, const struct explanation *explanation,
                         const struct pieces *pieces)
{
    json_open(json, key, '[');
    for (unsigned int i = 0; i < pieces->count; i++)
        write_piece(json, explanation, pieces->at[i]);
    json_close(json, ']');
}

static void write_other(struct json *json, const char *key, const struct explanation *explanation,
                        const struct other_threshold *other)
{
    const struct opening *opening = &explanation->evidence.opening;
    if (!other->is_asked) {
        json_null(json, key);
        return;
    }
    json_open(json, key, '{');
    json_unsigned(json, "failure_threshold", other->threshold);
    if (!other->is_known) {
        json_null(json, "opens");
    } else {
        json_bool(json, "opens", other->opens);
        if (other->opens) {
            write_time(json, "time", wall_of(other->at_ns, opening->mono_ns, opening->time_ns));
            json_unsigned(json, "mono_ns", other->at_ns);
            json_unsigned(json, "pid", other->pid);
        }
    }
    json_close(json, '}');
}

static void write_settings(struct json *json, const struct opening *opening)
{
    json_unsigned(json, "failure_threshold", opening->failure_threshold);
    write_rate(json, "failure_rate", opening->failure_rate_permille);
    write_rate(json, "slow_call_rate", opening->slow_call_rate_permille);
    json_unsigned(json, "slow_call_ms", opening->slow_call_ns / NS_PER_MS);
    json_unsigned(json, "minimum_calls", opening->minimum_calls);
    if ((opening->window & WINDOW_CALLS) != 0)
        json_unsigned(json, "window_calls", opening->window & ~WINDOW_CALLS);
    else
        json_unsigned(json, "window_ms", opening->window / NS_PER_MS);
}

static void write_opening(struct json *json, const struct explanation *explanation)
{
    const struct opening *opening = &explanation->evidence.opening;
    if (!explanation->evidence.has_opening) {
        json_null(json, "opening");
        return;
    }
    json_open(json, "opening", '{');
    write_time(json, "time", opening->time_ns);
    json_unsigned(json, "mono_ns", opening->mono_ns);
    json_unsigned(json, "counted_ns", opening->counted_ns);
    json_bool(json, "goes_on", explanation->is_outage);
    json_string(json, "reason", transition_reason_name(opening->reason));
    json_string(json, "rule", explanation->rule);
    json_unsigned(json, "pid", opening->pid);
    json_string(json, "program", opening->program);
    json_unsigned(json, "failures", opening->failures);
    json_open(json, "window", '{');
    json_unsigned(json, "calls", opening->window_calls);
    json_unsigned(json, "failed", opening->window_failed);
    json_unsigned(json, "slow", opening->window_slow);
    json_close(json, '}');
    json_open(json, "settings", '{');
    write_settings(json, opening);
    json_close(json, '}');
    json_unsigned(json, "pause_ms", opening->pause_ns / NS_PER_MS);
    json_bool(json, "injected", opening->injected != 0);
    write_pieces(json, "evidence", explanation, &explanation->led);
    json_unsigned(json, "evidence_missing", explanation->led_missing);
    write_other(json, "one_less", explanation, &explanation->lower);
    write_other(json, "one_more", explanation, &explanation->higher);
    json_close(json, '}');
}

static void write_transition(struct json *json, const struct explanation *explanation)
{
    const struct event *last = &explanation->row->last_transition;
    if (!explanation->row->has_transition) {
        json_null(json, "last_transition");
        return;
    }
    json_open(json, "last_transition", '{');
    write_time(json, "time", last->time_ns);
    json_unsigned(json, "mono_ns", last->mono_ns);
    json_string(json, "from", circuit_state_name(last->from));
    json_string(json, "to", circuit_state_name(last->to));
    json_string(json, "reason", transition_reason_name(last->reason));
    json_unsigned(json, "pid", last->pid);
    json_string(json, "program", last->program);
    json_close(json, '}');
}

static void write_now(struct json *json, const struct explanation *explanation)
{
    const struct row *row = explanation->row;
    uint64_t retry_ms;
    json_string(json, "state", circuit_state_name(row_state(row)));
    json_string(json, "own_state", circuit_state_name(row->view.state));
    json_string(json, "forced", forced_name(row->forced));
    json_string(json, "held", held_name(row->hold));
    json_bool(json, "probe_due", row_probe_due(row));
    if (row->view.since_ns != 0)
        write_time(json, "since", wall_of(row->view.since_ns, explanation->now_ns, explanation->wall_ns));
    else
        json_null(json, "since");
    if (row_retry_in_ms(row, &retry_ms))
        json_unsigned(json, "retry_in_ms", retry_ms);
    else
        json_null(json, "retry_in_ms");
    json_unsigned(json, "consecutive_failures", row->view.failures);
    json_unsigned(json, "calls", row->counts[COUNT_ADMITTED]);
    json_unsigned(json, "failed", row->counts[COUNT_FAILED]);
    if (explanation->has_answer)
        json_unsigned(json, "answered_s_ago", explanation->answer_seconds);
    else
        json_null(json, "answered_s_ago");
}

void explanation_json(struct json *json, const struct explanation *explanation)
{
    const struct row *row = explanation->row;
    json_open(json, NULL, '{');
    json_string(json, "policy", explanation->selected->identity);
    json_string(json, "owner", explanation->selected->user);
    json_string(json, "target", row->target_name);
    json_string(json, "destination", row->destination[0] != '\0' ? row->destination : NULL);
    write_now(json, explanation);
    write_opening(json, explanation);
    write_transition(json, explanation);
    json_unsigned(json, "probes_failed", explanation->probes_failed);
    write_pieces(json, "probe_failures", explanation, &explanation->probes);
    write_pieces(json, "recent_failures", explanation, &explanation->recent);
    json_unsigned(json, "late_failures", explanation->late_failures);
    json_unsigned(json, "unreadable", explanation->evidence.unreadable);
    json_unsigned(json, "processes", explanation->running->process_count);
    json_string(json, "next", explanation->next);
    json_open(json, "in_the_way", '[');
    for (size_t i = 0; i < explanation->obstacle_count; i++) {
        json_open(json, NULL, '{');
        json_string(json, "what", explanation->obstacles[i].what);
        json_string(json, "text", explanation->obstacles[i].text);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}
