/* recorder_policy.c: the text of the loader, as a recording has it. */
#include "server/recorder_policy.h"

#include "policy/source/policy_text.h"
#include "server/policy_loader.h"

struct telling {
	void (*tell)(void *context, const struct weir__recorder_policy *policy);
	void *context;
};

static void tell_view(void *telling_, const struct weir__policy_view *view)
{
	const struct telling *const telling = telling_;
	struct weir__recorder_policy policy = { .identity = view->version, .hidden = view->hidden };

	if (view->hidden == NULL && view->n != 1)
		policy.hidden = "the policy has several files";
	if (policy.hidden == NULL) {
		policy.text = view->parts[0].text.at;
		policy.n = view->parts[0].text.n;
	}
	telling->tell(telling->context, &policy);
}

void weir__recorder_policy(void *loader, void (*tell)(void *context, const struct weir__recorder_policy *policy),
			   void *context)
{
	struct telling telling = { tell, context };

	weir__policy_text_look(weir__policy_loader_text(loader), tell_view, &telling);
}
