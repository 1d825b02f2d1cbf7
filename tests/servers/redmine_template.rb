# What every test server of Redmine begins with: run by `rails runner` on an empty database; prints the accounts.

ActiveRecord::Migration.verbose = false
ActiveRecord::MigrationContext.new(Rails.root.join("db", "migrate").to_s, ActiveRecord::SchemaMigration).migrate
ActiveRecord::Base.descendants.each(&:reset_column_information)
Redmine::DefaultData::Loader.load("en")
Setting.rest_api_enabled = "1"
Setting.default_language = "en"

# The states of the contract. Everybody may move a task between them; to Rejected, which Redmine has too, nobody may.
statuses = [["Todo", false], ["In Progress", false], ["In Review", false], ["Done", true]].map do |name, closed|
  IssueStatus.find_by(name: name) || IssueStatus.create!(name: name, is_closed: closed)
end
task = Tracker.create!(name: "Task", default_status: statuses.first)
Role.givable.to_a.push(Role.non_member).product(statuses, statuses).each do |role, old, new|
  WorkflowTransition.create!(role: role, tracker: task, old_status: old, new_status: new) unless old == new
end

def account(login, name, **more)
  user = User.find_by(login: login) || User.new
  user.login, user.firstname, user.lastname, user.mail = login, name, "Example", "#{login}@example.com"
  user.password = user.password_confirmation = SecureRandom.hex
  user.must_change_passwd = false
  user.mail_notification = "none"
  user.update!(more)
  { id: user.id, key: user.api_key }
end

accounts = {
  admin: account("admin", "Adam", admin: true),
  sortie: account("sortie", "Sortie"),
  ann: account("ann", "Ann"),
  zoe: account("zoe", "Zoe"),
}
roles = { sortie: Role.find_by!(name: "Developer").id, ann: Role.find_by!(name: "Manager").id }

# A project with more issues than anybody wants to create one by one.
many = Project.create!(name: "Many", identifier: "many", is_public: false)
many.update!(trackers: [task], enabled_module_names: ["issue_tracking"])
Member.create!(project: many, principal: User.find(accounts[:sortie][:id]), role_ids: [roles[:sortie]])
urgent, normal = IssuePriority.find_by!(name: "Urgent").id, IssuePriority.find_by!(name: "Normal").id
Issue.insert_all!((1..1050).map do |number|
  chosen = number <= 250
  { id: number, root_id: number, lft: 1, rgt: 2, project_id: many.id, tracker_id: task.id,
    subject: "#{chosen ? 'Chosen' : 'Other'} #{number}", status_id: statuses.first.id,
    priority_id: chosen ? urgent : normal, author_id: accounts[:ann][:id], created_on: Time.now, updated_on: Time.now }
end)
puts "accounts: #{{ accounts: accounts, roles: roles, tracker: task.id }.to_json}"
