/* Tests of the library: the arguments are a directory that is served as /files, public keys (of the server, and another), and the
 * private key of the server. */
#include <errno.h>
#include <namewire.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH 300000

static unsigned char content[LENGTH];

#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, error.text); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

static struct namewire_error error;

static struct namewire_context *connect_with(const char *verify)
{
	struct namewire_options options = {0};

	options.size = sizeof options;
	options.verify = verify;
	options.timeout_ms = 20000;
	options.lifetime_ms = 300;
	return namewire_connect(&options, &error);
}

static void test_reads(struct namewire_context *context)
{
	static unsigned char buffer[LENGTH + 1];
	struct namewire_file *file = namewire_open(context, "/files/content", &error);
	struct namewire_stat found;
	struct namewire_part parts[3];

	CHECK(file);
	CHECK(strncmp(namewire_file_name(file), "/files/content/v=", 17) == 0);
	CHECK(namewire_fstat(file, &found, &error) == 0);
	CHECK(found.size == LENGTH && found.size_known && !found.is_directory && found.version > 0);
	CHECK(namewire_pread(file, buffer, sizeof buffer, 0, &error) == LENGTH);
	CHECK(memcmp(buffer, content, LENGTH) == 0);
	CHECK(namewire_pread(file, buffer, 100, LENGTH - 10, &error) == 10);
	CHECK(memcmp(buffer, content + LENGTH - 10, 10) == 0);
	CHECK(namewire_pread(file, buffer, 100, LENGTH, &error) == 0);
	CHECK(namewire_pread(file, buffer, 100, UINT64_MAX, &error) == 0);
	CHECK(namewire_pread(file, NULL, 0, 5, &error) == 0);
	for (int i = 0; i < 3; i++)
		parts[i] = (struct namewire_part){(uint64_t)i * 140000, buffer + i * 1000, 1000, 0};
	parts[2].offset = LENGTH - 5;
	CHECK(namewire_preadv(file, parts, 3, &error) == 2005);
	CHECK(parts[0].read == 1000 && parts[1].read == 1000 && parts[2].read == 5);
	CHECK(memcmp(buffer + 1000, content + 140000, 1000) == 0);
	CHECK(memcmp(buffer + 2000, content + LENGTH - 5, 5) == 0);
	namewire_close(file);
}

static void test_directories(struct namewire_context *context)
{
	struct namewire_directory *directory = namewire_opendir(context, "/files", &error);
	struct namewire_entry entry;
	struct namewire_stat found;

	CHECK(directory);
	CHECK(namewire_readdir(directory, &entry) == 1);
	CHECK(strcmp(entry.name, "content") == 0 && !entry.is_directory);
	CHECK(namewire_readdir(directory, &entry) == 1);
	CHECK(strcmp(entry.name, "sub") == 0 && entry.is_directory);
	CHECK(namewire_readdir(directory, &entry) == 0);
	CHECK(namewire_readdir(directory, &entry) == 0);
	namewire_closedir(directory);
	CHECK(namewire_stat(context, "/files/sub", &found, &error) == 0);
	CHECK(found.is_directory && !found.size_known);
	struct namewire_lookup lookups[] = {{.name = "/files/content"}, {.name = "/files/none"}, {.name = "/files/sub"}};
	CHECK(namewire_stat_each(context, lookups, 3, &error) == 0);
	CHECK(lookups[0].exists && lookups[0].stat.size == LENGTH && lookups[2].exists && lookups[2].stat.is_directory);
	CHECK(!lookups[1].exists && namewire_stat_each(context, NULL, 0, &error) == 0);
	CHECK(namewire_stat_each(context, NULL, 1, &error) == -1 && error.number == EINVAL);
	directory = namewire_opendirplus(context, "/files", &error);
	CHECK(directory);
	CHECK(namewire_readdirplus(directory, &entry, &found) == 1);
	CHECK(strcmp(entry.name, "content") == 0 && found.size == LENGTH && found.version > 0);
	CHECK(namewire_readdirplus(directory, &entry, &found) == 1);
	CHECK(strcmp(entry.name, "sub") == 0 && entry.is_directory && found.is_directory);
	CHECK(namewire_readdirplus(directory, &entry, &found) == 0);
	namewire_closedir(directory);
	directory = namewire_opendir(context, "/files", &error);
	CHECK(namewire_readdirplus(directory, &entry, &found) == -1);
	CHECK(namewire_readdirplus(NULL, &entry, &found) == -1);
	namewire_closedir(directory);
}

static void test_disk_cache(const char *verify, const char *served)
{
	static unsigned char buffer[LENGTH];
	struct namewire_options options = {0};
	struct namewire_cache_counters counters;
	struct namewire_file *file;
	char directory[4096], version[256];

	/* Beside the directory that is served. */
	snprintf(directory, sizeof directory, "%s/../cache-XXXXXX", served);
	CHECK(mkdtemp(directory));
	options.size = sizeof options;
	options.verify = verify;
	options.timeout_ms = 20000;
	options.cache_dir = directory;
	options.cache_dir_size = "1MiB";
	CHECK(!namewire_connect(&options, &error) && error.number == EINVAL);
	CHECK(strstr(error.text, "cache_dir_size"));
	options.cache_dir_size = "1GiB";
	struct namewire_context *context = namewire_connect(&options, &error);
	CHECK(context && (file = namewire_open(context, "/files/content", &error)));
	CHECK(namewire_pread(file, buffer, LENGTH, 0, &error) == LENGTH);
	snprintf(version, sizeof version, "%s", namewire_file_name(file));
	CHECK(namewire_cache_counters(context, &counters, &error) == 0);
	CHECK(counters.memory_bytes == LENGTH && counters.misses > 0 && counters.hits == 0 && !*counters.warning);
	CHECK(namewire_cache_counters(context, NULL, &error) == -1 && error.number == EINVAL);
	/* Ends the cache, too, which writes what is left. */
	namewire_close(file);
	namewire_disconnect(context);
	/* Without a forwarder. */
	options.transport = "unix:///nonexistent";
	CHECK((context = namewire_connect(&options, &error)));
	CHECK((file = namewire_open(context, version, &error)));
	memset(buffer, 0, sizeof buffer);
	CHECK(namewire_pread(file, buffer, LENGTH, 0, &error) == LENGTH);
	CHECK(memcmp(buffer, content, LENGTH) == 0);
	CHECK(namewire_cache_counters(context, &counters, &error) == 0);
	CHECK(counters.hits > 0 && counters.misses == 0 && counters.damaged == 0);
	CHECK(strstr(counters.warning, "/nonexistent"));
	namewire_close(file);
	namewire_disconnect(context);
}

static void test_errors(struct namewire_context *context)
{
	struct namewire_stat found;
	struct namewire_options wrong = {0};
	struct namewire_part part = {UINT64_MAX, NULL, SIZE_MAX, 0};
	struct namewire_file *file = namewire_open(context, "/files/content", NULL);

	CHECK(!namewire_open(context, "/files/none", &error));
	CHECK(error.number == ENOENT && strstr(error.text, "/files/none"));
	CHECK(!namewire_open(context, "/files/sub", &error) && error.number == EISDIR);
	CHECK(!namewire_opendir(context, "/files/content", &error) && error.number == ENOTDIR);
	CHECK(!namewire_open(context, "/nowhere/file", &error) && error.number == ENETUNREACH);
	CHECK(!namewire_open(context, "/files/%zz", &error) && error.number == EINVAL);
	CHECK(strstr(error.text, "%zz"));
	CHECK(!namewire_open(context, NULL, &error) && error.number == EINVAL);
	CHECK(!namewire_open(NULL, "/files/content", &error) && error.number == EINVAL);
	CHECK(!namewire_open(context, "\xff", &error) && error.number == EINVAL);
	CHECK(namewire_stat(context, "/files", NULL, &error) == -1 && error.number == EINVAL);
	CHECK(namewire_fstat(NULL, &found, &error) == -1 && error.number == EINVAL);
	CHECK(namewire_pread(file, NULL, 10, 0, &error) == -1 && error.number == EINVAL);
	CHECK(namewire_preadv(file, NULL, 2, &error) == -1 && error.number == EINVAL);
	CHECK(namewire_preadv(file, &part, 1, &error) == 0 || error.number == EINVAL);
	/* Without a place for the reason. */
	CHECK(!namewire_open(context, "/files/none", NULL));
	CHECK(!namewire_connect(&wrong, &error) && error.number == EINVAL);
	CHECK(!connect_with("/nonexistent.pem") && error.number == EINVAL);
	CHECK(strstr(error.text, "/nonexistent.pem"));
	wrong.size = sizeof wrong;
	wrong.transport = "unix:///nonexistent";
	CHECK(!namewire_connect(&wrong, &error) && error.number == EHOSTDOWN);
	namewire_close(NULL);
	namewire_closedir(NULL);
	namewire_disconnect(NULL);
	CHECK(!namewire_file_name(NULL));
	namewire_close(file);
}

static void *read_in_thread(void *argument)
{
	struct namewire_file *file = argument;
	unsigned char buffer[5000];
	unsigned int seed = 1;

	for (int i = 0; i < 200; i++) {
		seed = seed * 1103515245 + 12345;
		uint64_t offset = seed % (LENGTH - sizeof buffer);
		if (namewire_pread(file, buffer, sizeof buffer, offset, NULL) != (ssize_t)sizeof buffer
		    || memcmp(buffer, content + offset, sizeof buffer) != 0)
			return file;
	}
	return NULL;
}

static void test_threads(void)
{
	struct namewire_context *context = connect_with(NULL);
	struct namewire_file *file = namewire_open(context, "/files/content", &error);
	pthread_t threads[8];
	void *failed;

	CHECK(file);
	/* The file outlives its context. */
	namewire_disconnect(context);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, read_in_thread, file) == 0);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_join(threads[i], &failed) == 0 && !failed);
	namewire_close(file);
}

static void test_fork(struct namewire_context *context)
{
	struct namewire_file *file = namewire_open(context, "/files/content", &error);
	unsigned char buffer[10];
	int status;

	CHECK(file);
	pid_t child = fork();
	if (child == 0) {
		int refused = namewire_pread(file, buffer, 10, 0, &error) == -1 && error.number == EHOSTDOWN;
		namewire_close(file);
		/* A connection of its own works. */
		struct namewire_context *own = connect_with(NULL);
		file = own ? namewire_open(own, "/files/content", &error) : NULL;
		int reads = file && namewire_pread(file, buffer, 10, 0, &error) == 10;
		_exit(refused && reads ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(namewire_pread(file, buffer, 10, 0, &error) == 10);
	namewire_close(file);
}

static pthread_t main_thread;
static volatile sig_atomic_t signals_handled, signals_elsewhere;

static void handle_signal(int number)
{
	(void)number;
	if (pthread_equal(pthread_self(), main_thread))
		signals_handled = 1;
	else
		signals_elsewhere = 1;
}

/* Accepts one connection, on which a write raises SIGPIPE while a read waits. */
static void *accept_and_refuse_to_read(void *argument)
{
	int accepted = accept(*(int *)argument, NULL, NULL);

	if (accepted >= 0)
		shutdown(accepted, SHUT_RD);
	return NULL;
}

static void test_signals(struct namewire_context *context, const char *served)
{
	struct namewire_options options = {0};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct sigaction handling = {.sa_handler = handle_signal};
	struct namewire_stat found;
	char transport[200];
	sigset_t mask, before;
	pthread_t forwarder;

	/* A signal that only this thread blocks would be handled by another one. */
	main_thread = pthread_self();
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	CHECK(sigaction(SIGUSR1, &handling, NULL) == 0 && pthread_sigmask(SIG_BLOCK, &mask, &before) == 0);
	CHECK(kill(getpid(), SIGUSR1) == 0);
	for (int i = 0; i < 20; i++)
		CHECK(namewire_stat(context, "/files/content", &found, &error) == 0);
	CHECK(!signals_handled && !signals_elsewhere);
	CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	/* Sanitizers handle it a moment later. */
	for (int i = 0; i < 1000 && !signals_handled; i++)
		usleep(1000);
	CHECK(signals_handled && !signals_elsewhere);

	signal(SIGPIPE, SIG_DFL);
	CHECK(snprintf(address.sun_path, sizeof address.sun_path, "%s/../deaf", served) < (int)sizeof address.sun_path);
	int listening = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(listening >= 0 && bind(listening, (struct sockaddr *)&address, sizeof address) == 0);
	CHECK(listen(listening, 1) == 0);
	CHECK(pthread_create(&forwarder, NULL, accept_and_refuse_to_read, &listening) == 0);
	snprintf(transport, sizeof transport, "unix://%s", address.sun_path);
	options.size = sizeof options;
	options.transport = transport;
	options.timeout_ms = 500;
	options.lifetime_ms = 200;
	struct namewire_context *refused = namewire_connect(&options, &error);
	CHECK(refused && pthread_join(forwarder, NULL) == 0);
	CHECK(namewire_stat(refused, "/a", &found, &error) == -1);
	namewire_disconnect(refused);
	close(listening);
	unlink(address.sun_path);
}

static struct namewire_serve_options serving(void)
{
	struct namewire_serve_options options = {0};

	options.size = sizeof options;
	return options;
}

static void assert_reads(struct namewire_context *context, const char *name, const void *expected, size_t length)
{
	static unsigned char buffer[LENGTH + 1];
	struct namewire_file *file = namewire_open(context, name, &error);

	CHECK(file);
	CHECK(namewire_pread(file, buffer, sizeof buffer, 0, &error) == (ssize_t)length);
	CHECK(memcmp(buffer, expected, length) == 0);
	namewire_close(file);
}

static void test_publishing(struct namewire_context *context, const char *directory, const char *private_key)
{
	struct namewire_serve_options options = serving();
	struct namewire_context *producer = connect_with(NULL);
	struct namewire_service *service;
	char path[4096];

	/* The consumer's key is that of the server. */
	options.sign = private_key;
	service = namewire_publish(producer, "/made/object", content, 100000, &options, &error);
	CHECK(service && strncmp(namewire_service_name(service), "/made/object/v=", 15) == 0);
	assert_reads(context, "/made/object", content, 100000);
	assert_reads(context, namewire_service_name(service), content, 100000);
	CHECK(!namewire_publish(producer, "/made/object", content, 1, &options, &error));
	CHECK(error.number == EINVAL && strstr(error.text, "/made/object"));
	CHECK(namewire_unserve(service, &error) == 0);
	/* With another signature it is not accepted. */
	service = namewire_publish(producer, "/made/other", content, 10, NULL, &error);
	CHECK(service && !namewire_open(context, "/made/other", &error) && error.number == EIO);
	CHECK(namewire_unserve(service, &error) == 0);
	service = namewire_publish(producer, "/made/empty", NULL, 0, &options, &error);
	CHECK(service);
	assert_reads(context, "/made/empty", content, 0);
	/* Its context may have ended before. */
	namewire_disconnect(producer);
	CHECK(namewire_unserve(service, &error) == 0);

	producer = connect_with(NULL);
	snprintf(path, sizeof path, "%s/content", directory);
	options.segment_bytes = 1000;
	service = namewire_serve_path(producer, "/made/file", path, &options, &error);
	/* valgrind 3.19 does not know openat2. */
	if (!service && error.number == ENOSYS && getenv("WITHOUT_OPENAT2")) {
		namewire_disconnect(producer);
		return;
	}
	CHECK(service && strcmp(namewire_service_name(service), "/made/file") == 0);
	assert_reads(context, "/made/file", content, LENGTH);
	CHECK(namewire_unserve(service, &error) == 0);
	service = namewire_serve_path(producer, "/made/files", directory, &options, &error);
	CHECK(service);
	assert_reads(context, "/made/files/content", content, LENGTH);
	namewire_disconnect(producer);
	CHECK(namewire_unserve(service, NULL) == 0);
}

static void answer_lengths(void *data, struct namewire_interest *interest)
{
	int *calls = data;
	const char *name = namewire_interest_name(interest);
	char text[256];
	size_t length;

	++*calls;
	if (strstr(name, "/refused")) {
		namewire_nack(interest);
		return;
	}
	if (namewire_interest_parameters(interest, &length) || length != 0)
		abort();
	/* Too long for a packet. */
	if (strstr(name, "/long")) {
		struct namewire_error reason;

		if (namewire_answer(interest, NULL, content, 100000, &reason) != -1 || reason.number != EINVAL)
			abort();
		return;
	}
	snprintf(text, sizeof text, "%s", name);
	if (namewire_answer(interest, NULL, text, strlen(text), NULL) != 0)
		abort();
}

static void test_answers(void)
{
	struct namewire_context *producer = connect_with(NULL), *consumer = connect_with("none");
	int calls = 0, before;
	struct namewire_service *service = namewire_serve(producer, "/answers", answer_lengths, &calls, NULL, &error);
	struct namewire_stat found;

	CHECK(service && strcmp(namewire_service_name(service), "/answers") == 0);
	/* What it answers is no file, but the answer arrives: no wait for the time limit, and calls. */
	CHECK(namewire_stat(consumer, "/answers/text", &found, &error) == -1 && error.number != ETIMEDOUT);
	CHECK(namewire_stat(consumer, "/answers/refused", &found, &error) == -1 && error.number == ENETUNREACH);
	CHECK(namewire_unserve(service, &error) == 0);
	before = calls;
	CHECK(before >= 2);
	CHECK(namewire_stat(consumer, "/answers/text2", &found, &error) == -1 && error.number == ENETUNREACH);
	CHECK(calls == before);
	namewire_disconnect(producer);
	namewire_disconnect(consumer);
}

static void test_errors_of_services(struct namewire_context *context)
{
	struct namewire_serve_options options = serving();
	int status;

	CHECK(!namewire_publish(NULL, "/made/x", "", 0, NULL, &error) && error.number == EINVAL);
	CHECK(!namewire_publish(context, "/made/x", NULL, 5, NULL, &error) && error.number == EINVAL);
	CHECK(!namewire_publish(context, "/made/%", "", 0, NULL, &error) && error.number == EINVAL);
	CHECK(!namewire_serve(context, "/made/x", NULL, NULL, NULL, &error) && error.number == EINVAL);
	CHECK(!namewire_serve_path(context, "/made/x", NULL, NULL, &error) && error.number == EINVAL);
	CHECK(!namewire_serve_path(context, "/made/x", "/nonexistent", NULL, &error) && error.number == ENOENT);
	CHECK(strstr(error.text, "/nonexistent"));
	options.sign = "/nonexistent.pem";
	CHECK(!namewire_publish(context, "/made/x", "", 0, &options, &error) && error.number == EINVAL);
	CHECK(strstr(error.text, "/nonexistent.pem"));
	options = serving();
	options.segment_bytes = 1000000;
	CHECK(!namewire_publish(context, "/made/x", content, LENGTH, &options, &error) && error.number == EINVAL);
	options.size = 3;
	CHECK(!namewire_publish(context, "/made/x", "", 0, &options, &error) && error.number == EINVAL);
	CHECK(namewire_unserve(NULL, &error) == 0 && !namewire_service_name(NULL) && !namewire_interest_name(NULL));
	CHECK(namewire_answer(NULL, NULL, "", 0, &error) == -1 && error.number == EINVAL);
	namewire_nack(NULL);
	/* A child leaves the services of its parent alone. */
	struct namewire_service *service = namewire_publish(context, "/made/forked", content, 10, NULL, &error);
	CHECK(service);
	pid_t child = fork();
	if (child == 0)
		_exit(namewire_unserve(service, &error) == -1 && error.number == EHOSTDOWN ? 0 : 1);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	struct namewire_context *any = connect_with(NULL);
	assert_reads(any, "/made/forked", content, 10);
	namewire_disconnect(any);
	CHECK(namewire_unserve(service, &error) == 0);
}

int main(int argc, char **argv)
{
	char path[4096];

	if (argc != 5)
		return 2;
	for (size_t i = 0; i < LENGTH; i++)
		content[i] = (unsigned char)(i * 7 + i / 251);
	snprintf(path, sizeof path, "%s/content", argv[1]);
	FILE *out = fopen(path, "wb");
	CHECK(out && fwrite(content, 1, LENGTH, out) == LENGTH && fclose(out) == 0);
	struct namewire_context *context = connect_with(argv[2]);
	CHECK(context);
	CHECK(namewire_version()[0] != 0);
	test_reads(context);
	test_directories(context);
	test_disk_cache(argv[2], argv[1]);
	test_errors(context);
	test_threads();
	test_fork(context);
	test_signals(context, argv[1]);
	test_publishing(context, argv[1], argv[4]);
	test_answers();
	test_errors_of_services(context);
	namewire_disconnect(context);
	struct namewire_context *other = connect_with(argv[3]);
	CHECK(other);
	CHECK(!namewire_open(other, "/files/content", &error) && error.number == EIO);
	namewire_disconnect(other);
	puts("passed");
	return 0;
}
