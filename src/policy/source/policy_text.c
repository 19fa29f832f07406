/* policy_text.c: keeps a copy of the policy's text under a lock. */
#include "policy/source/policy_text.h"

#include <pthread.h>
#include <stdlib.h>

struct weir__policy_text {
	pthread_mutex_t lock;
	struct weir__policy_view view;
	struct weir__policy_version copy;
};

struct weir__policy_text *weir__policy_text_new(void)
{
	struct weir__policy_text *const policy_text = calloc(1, sizeof(*policy_text));

	if (policy_text)
		(void)pthread_mutex_init(&policy_text->lock, NULL);
	return policy_text;
}

void weir__policy_text_free(struct weir__policy_text *policy_text)
{
	if (policy_text == NULL)
		return;
	weir__policy_version_free(&policy_text->copy);
	(void)pthread_mutex_destroy(&policy_text->lock);
	free(policy_text);
}

static size_t size_of(const struct weir__policy_version *version)
{
	size_t size = 0;

	for (size_t i = 0; i < version->n; i++)
		size += version->parts[i].text.n;
	return size;
}

static bool copy_part(const struct weir__policy_part *from, struct weir__policy_part *ret_to)
{
	char *const text = malloc(from->text.n + 1);

	ret_to->file = strdup(from->file);
	ret_to->text = (struct weir__slice){ text, from->text.n };
	if (text)
		memcpy(text, from->text.at, from->text.n);
	return text && ret_to->file;
}

/* Returns a copy. It has no parts if memory runs out. */
static struct weir__policy_version copy_version(const struct weir__policy_version *version)
{
	struct weir__policy_version copy = { calloc(version->n + 1, sizeof(*copy.parts)), 0 };
	bool is_whole = copy.parts != NULL;

	for (size_t i = 0; is_whole && i < version->n; i++) {
		is_whole = copy_part(&version->parts[i], &copy.parts[i]);
		copy.n = i + 1;
	}
	for (size_t i = 0; !is_whole && i < copy.n; i++)
		if (copy.parts[i].text.at == NULL)
			copy.parts[i].text.n = 0;
	if (!is_whole)
		weir__policy_version_free(&copy);
	return copy;
}

void weir__policy_text_set(struct weir__policy_text *policy_text, const struct weir__policy_version *version,
			   uint64_t hash, bool is_put, const char *hidden)
{
	struct weir__policy_version copy = { NULL, 0 }, old;

	if (hidden == NULL && size_of(version) > WEIR__POLICY_TEXT_MOST)
		hidden = "the policy is longer than 131072 bytes";
	if (hidden == NULL)
		copy = copy_version(version);
	if (hidden == NULL && copy.parts == NULL)
		hidden = "no memory to keep it";
	(void)pthread_mutex_lock(&policy_text->lock);
	old = policy_text->copy;
	policy_text->copy = copy;
	policy_text->view = (struct weir__policy_view){ hash, is_put, hidden, copy.parts, copy.n };
	(void)pthread_mutex_unlock(&policy_text->lock);
	weir__policy_version_free(&old);
}

void weir__policy_text_look(struct weir__policy_text *policy_text,
			    void (*look)(void *context, const struct weir__policy_view *view), void *context)
{
	(void)pthread_mutex_lock(&policy_text->lock);
	look(context, &policy_text->view);
	(void)pthread_mutex_unlock(&policy_text->lock);
}
